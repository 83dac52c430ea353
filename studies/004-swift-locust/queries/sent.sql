/* What was sent, beside what the study says. Distinct objects; in_order: how often a user asked for the row after its last one, the first row
   coming after the last, which is 1 where a script walks through the list again and again and about 1 / objects where each object is a random
   one; pauses between an answer and the next request. */
with asked as (
  select users, row, (begun_ns - lag(done_ns) over (partition by trial, samples.group_name, vu order by seq)) / 1e9 as pause_s,
         lag(row) over (partition by trial, samples.group_name, vu order by seq) as row_before, max(row) over () as last_row
  from samples join cases on cases.case_name = samples.case_name)
select users, count(*) as downloads, count(distinct row) as objects,
       round(avg((row = case when row_before = last_row then 0 else row_before + 1 end)::int) filter (row_before is not null), 3) as in_order,
       round(min(pause_s), 3) as least_pause_s, round(avg(pause_s), 3) as mean_pause_s, round(max(pause_s), 3) as longest_pause_s
from asked group by users order by max(cast(regexp_extract(users, '[0-9]+') as integer))

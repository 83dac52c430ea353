/* Downloads beyond Tukey's upper fence (p75 + 1.5 × interquartile range, by level): of each level the five slowest, with what each server
   used of the CPU in the second in which they ended. That is the monitor's reading of the whole service (entity ''): it gives one of each
   process beside it. */
with kept as (
  select trial, users, vu, seq, row, done_ns, (done_ns - due_ns) / 1e9 as s
  from samples join trials using (trial) join cases on cases.case_name = samples.case_name
  where error = 0 and due_ns >= window_from_ns and due_ns < window_to_ns),
fences as (
  select users, quantile_cont(s, 0.75) + 1.5 * (quantile_cont(s, 0.75) - quantile_cont(s, 0.25)) as fence_s from kept group by users),
used as (
  select trial, service, floor(offset_ns / 1e9) as second, sum(grown) as cpu_s
  from (select trial, service, offset_ns, value - lag(value) over (partition by trial, service order by offset_ns) as grown
        from monitors where monitor = 'process' and metric = 'cpu_seconds_total' and entity = '' and service <> '')
  group by trial, service, second),
slowest as (
  select kept.*, fence_s from kept join fences using (users) where s > fence_s
  qualify row_number() over (partition by users order by s desc) <= 5)
select users, slowest.trial, vu, seq, row, s as response_s, fence_s, done_ns / 1e9 as ended_at_s,
       string_agg(service || ' ' || round(cpu_s, 2) || ' cores', ', ' order by service) as servers_then
from slowest left join used on used.trial = slowest.trial and used.second = floor(done_ns / 1e9)
group by all order by max(cast(regexp_extract(users, '[0-9]+') as integer)), s desc

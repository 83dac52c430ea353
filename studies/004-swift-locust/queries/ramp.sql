/* What the ramp does to the statistics: the whole run, as the paper takes it, beside the kept window. Throughput is of completions. */
select users, avg(s) as whole_mean_s, avg(s) filter (kept) as kept_mean_s, median(s) as whole_p50_s, median(s) filter (kept) as kept_p50_s,
       count(*) / sum(distinct_to) as whole_rps, count(*) filter (completed_kept) / sum(distinct_kept) as kept_rps
from (select users, (done_ns - due_ns) / 1e9 as s, due_ns >= window_from_ns as kept, done_ns >= window_from_ns and done_ns < window_to_ns as completed_kept,
             case when row_number() over (partition by trial order by due_ns) = 1 then window_to_ns / 1e9 else 0 end as distinct_to,
             case when row_number() over (partition by trial order by due_ns) = 1 then (window_to_ns - window_from_ns) / 1e9 else 0 end as distinct_kept
      from samples join trials using (trial) join cases on cases.case_name = samples.case_name
      where error = 0 and due_ns < window_to_ns)
group by users order by max(cast(regexp_extract(users, '[0-9]+') as integer))

/* The paper's table by level, with the tail that it lacks: seconds, of ok downloads that were due once all users were there. Outliers lie
   beyond Tukey's upper fence: p75 + 1.5 × interquartile range of their level. */
with kept as (
  select users, (done_ns - due_ns) / 1e9 as s
  from samples join trials using (trial) join cases on cases.case_name = samples.case_name
  where error = 0 and due_ns >= window_from_ns and due_ns < window_to_ns),
fences as (
  select users, quantile_cont(s, 0.75) + 1.5 * (quantile_cont(s, 0.75) - quantile_cont(s, 0.25)) as fence_s from kept group by users)
select users, count(*) as n, avg(s) as mean_s, stddev_samp(s) as std_s, min(s) as min_s, quantile_cont(s, 0.25) as p25_s,
       median(s) as p50_s, quantile_cont(s, 0.75) as p75_s, quantile_cont(s, 0.9) as p90_s, quantile_cont(s, 0.95) as p95_s,
       quantile_cont(s, 0.99) as p99_s, max(s) as max_s, count(*) filter (s > fence_s) as outliers
from kept join fences using (users)
group by users order by max(cast(regexp_extract(users, '[0-9]+') as integer))

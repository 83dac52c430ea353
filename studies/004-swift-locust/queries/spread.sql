/* How wide each trial's downloads lie: standard deviation, interquartile range, and the share beyond Tukey's upper fence of the trial. Of
   trials that were not refused. */
with kept as (
  select trial, users, (done_ns - due_ns) / 1e9 as s
  from samples join trials using (trial) join cases on cases.case_name = samples.case_name join verdicts using (trial)
  where error = 0 and due_ns >= window_from_ns and due_ns < window_to_ns and instrument <> 'REFUSED'),
fences as (
  select trial, quantile_cont(s, 0.75) - quantile_cont(s, 0.25) as iqr_s,
         quantile_cont(s, 0.75) + 1.5 * (quantile_cont(s, 0.75) - quantile_cont(s, 0.25)) as fence_s
  from kept group by trial)
select users, trial, stddev_samp(s) as std_s, iqr_s, count(*) filter (s > fence_s) / count(*) as beyond
from kept join fences using (trial) group by users, trial, iqr_s order by users, trial

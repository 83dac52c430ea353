/* The paper's table beside a run of script.yaml, up to one scale: times in multiples of the first level's mean, downloads a second in multiples
   of the first level's. The paper's statistics have the ramp in them, so ours stand there with it and without it. With it: all that had ended
   when the run did. The paper's downloads a second follow from its mean: users on average, a ramp of one a second in it, over the mean. */
with paper as (
  select 'paper' as who, users, mean_s, std_s, min_s, p25_s, p50_s, p75_s, max_s, users * (1 - users / 2.0 / run_time_s) / mean_s as per_s
  from (values (10, 70, 0.37, 0.21, 0.05, 0.23, 0.34, 0.46, 2.01), (50, 130, 1.63, 1.01, 0.04, 0.83, 1.55, 2.29, 5.81),
               (100, 150, 2.64, 1.87, 0.06, 1.08, 2.43, 3.76, 11.16), (150, 170, 3.26, 2.33, 0.05, 1.16, 3.12, 4.86, 20.15))
       as printed (users, run_time_s, mean_s, std_s, min_s, p25_s, p50_s, p75_s, max_s)),
ended as (
  select cast(regexp_extract(users, '[0-9]+') as integer) as users, trial, (done_ns - due_ns) / 1e9 as s, due_ns, done_ns,
         window_from_ns as from_ns, window_to_ns as to_ns
  from samples join trials using (trial) join cases on cases.case_name = samples.case_name
  where error = 0 and due_ns < window_to_ns),
ours as (
  select 'ours' as who, users, s, due_ns >= from_ns as told, done_ns >= from_ns and done_ns < to_ns as served, trial, (to_ns - from_ns) / 1e9 as lasted_s
  from ended
  union all
  select 'ours, ramp in', users, s, done_ns < to_ns, done_ns < to_ns, trial, to_ns / 1e9 from ended),
every as (
  select * from paper
  union all
  select who, users, avg(s) filter (told), stddev_samp(s) filter (told), min(s) filter (told), quantile_cont(s, 0.25) filter (told),
         median(s) filter (told), quantile_cont(s, 0.75) filter (told), max(s) filter (told),
         count(*) filter (served) / (count(distinct trial) * max(lasted_s))
  from ours group by who, users),
scaled as (
  select *, first_value(mean_s) over (partition by who order by users) as one_s, first_value(per_s) over (partition by who order by users) as one
  from every)
select users, who, round(mean_s / one_s, 2) as mean_x, round(std_s / one_s, 2) as std_x, round(min_s / one_s, 2) as min_x,
       round(p25_s / one_s, 2) as p25_x, round(p50_s / one_s, 2) as p50_x, round(p75_s / one_s, 2) as p75_x, round(max_s / one_s, 2) as max_x,
       round(per_s / one, 2) as served_x, round(mean_s, 3) as mean_s, round(per_s, 1) as per_s
from scaled order by users, who = 'ours', who = 'ours, ramp in'

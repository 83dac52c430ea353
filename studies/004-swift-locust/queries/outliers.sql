/* Downloads beyond Tukey's upper fence (p75 + 1.5 × interquartile range, by level), the slowest first, with what each server used of the
   CPU in the second in which they ended. */
with kept as (
  select trial, users, vu, seq, row, done_ns, (done_ns - due_ns) / 1e9 as s
  from samples join trials using (trial) join cases on cases.case_name = samples.case_name
  where error = 0 and due_ns >= window_from_ns and due_ns < window_to_ns),
fences as (
  select users, quantile_cont(s, 0.75) + 1.5 * (quantile_cont(s, 0.75) - quantile_cont(s, 0.25)) as fence_s from kept group by users),
used as (
  select trial, service, floor(offset_ns / 1e9) as second, sum(grown) as cpu_s
  from (select trial, service, offset_ns, value - lag(value) over (partition by trial, service, monitor, entity order by offset_ns) as grown
        from monitors where metric = 'cpu_seconds_total' and service <> '')
  group by trial, service, second)
select kept.users, kept.trial, kept.vu, kept.seq, kept.row, s as response_s, fence_s, done_ns / 1e9 as ended_at_s,
       string_agg(distinct service || ' ' || round(cpu_s, 2) || ' cores', ', ') as servers_then
from kept join fences using (users) left join used on used.trial = kept.trial and used.second = floor(done_ns / 1e9)
where s > fence_s
group by all order by s desc limit 50

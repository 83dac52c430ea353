/* Operations of mixed.yaml by size, in the kept window: how often a second (ok), how many bytes a second (of bodies: what came back, of a PUT what
   was sent, by its level), the share that failed, and the median and 99th percentile of the response. */
with sizes as (
  select * from (values ('tiny', 1024), ('small', 16384), ('middle', 204800), ('large', 5000000), ('huge', 1073741824)) as known (size, bytes)),
operations as (
  select * from (values (0, 'put'), (1, 'get'), (2, 'head'), (3, 'range'), (4, 'list'), (5, 'delete'), (6, 'renewal')) as known (step, operation)),
lasted as (
  select size, sum(window_to_ns - window_from_ns) / 1e9 as lasted_s
  from trials join cases on cases.case_name = trials.case_name group by size),
kept as (
  select size, step, error = 0 as ok, (done_ns - due_ns) / 1e9 as s, body_bytes, due_ns >= window_from_ns and due_ns < window_to_ns as due_here,
         error = 0 and done_ns >= window_from_ns and done_ns < window_to_ns as served
  from samples join trials using (trial) join cases on cases.case_name = samples.case_name
  where samples.group_name = 'users')
select size, operation, count(*) filter (due_here) as asked, count(*) filter (served) / max(lasted_s) as ok_per_s,
       sum(case when operation = 'put' then bytes else body_bytes end) filter (served) / max(lasted_s) / 1e6 as mb_per_s,
       count(*) filter (due_here and not ok) / count(*) filter (due_here) as failed,
       quantile_cont(s, 0.5) filter (ok and due_here) as p50_s, quantile_cont(s, 0.99) filter (ok and due_here) as p99_s
from kept join operations using (step) join sizes using (size) join lasted using (size)
group by size, operation, step, bytes order by bytes, step

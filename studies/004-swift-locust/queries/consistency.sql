/* What reads and looks of consistency.yaml came to. Read: of an object that was put twice; stale: the body of the first put (10 kB) came, lost: no
   such object, altered: another body. Look: a listing asked for one object, at once or some seconds after its second put was answered; missed:
   it was not named. Failed: anything else. ages: seconds from that answer to the look; times from the load's begin. */
with steps as (
  select *, (begun_ns - lag(done_ns) over (partition by trial, group_name, seq order by step)) / 1e9 as age_s from samples),
told as (
  select case when group_name = 'readers' then 'read' when step = 2 then 'look at once' when step = 5 then 'look after 4 s' else 'look after 12 s' end as what,
         case when error = 0 then case group_name when 'readers' then 'verified' else 'listed' end
              when group_name = 'readers' and status = 404 then 'lost'
              when error_name <> 'check' then 'failed'
              when group_name = 'writers' then 'missed'
              when body_bytes = 10000 then 'stale' else 'altered' end as outcome,
         case group_name when 'writers' then age_s end as age_s, begun_ns, done_ns
  from steps where group_name = 'readers' or step % 3 = 2)
select what, outcome, count(*) as requests, count(*) / sum(count(*)) over (partition by what) as share,
       min(age_s) as least_age_s, max(age_s) as greatest_age_s, round(min(begun_ns) / 1e9, 1) as first_s, round(max(done_ns) / 1e9, 1) as last_s
from told group by what, outcome order by what, requests desc

/* What became of each upload and read of ring.yaml. Stored: answered 201, with the MD5 of what was sent. Verified: size and MD5 are those of
   what was put. Lost: no such object (404), although its upload had succeeded. Altered: answered, with another size or MD5. Failed: anything
   else, by its name. Times from the load's begin. */
select group_name, case when error = 0 then case group_name when 'writers' then 'stored' else 'verified' end
                        when group_name = 'readers' and status = 404 then 'lost' when error_name = 'check' then 'altered' else 'failed' end as outcome,
       error_name, status, count(*) as requests, round(sum(body_bytes) / 1e6, 1) as megabytes_read,
       round(min(begun_ns) / 1e9, 1) as first_s, round(max(done_ns) / 1e9, 1) as last_s, round(max(done_ns - due_ns) / 1e9, 2) as longest_s
from samples
group by all order by requests desc

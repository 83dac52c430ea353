/* First byte and last byte of each cell that keeps a row a request: ok answers to what was due in the kept window. near: the last byte came less than
   1 ms after the first. same: both fell into one millisecond, which is when JMeter prints one number for both. */
select samples.case_name as cell, count(*) as n, avg((done_ns - first_byte_ns < 1000000)::int) as near,
       avg((done_ns // 1000000 = first_byte_ns // 1000000)::int) as same,
       median((first_byte_ns - begun_ns) / 1e9) as first_s, median((done_ns - begun_ns) / 1e9) as last_s
from samples join trials using (trial)
where error = 0 and first_byte_ns >= 0 and group_name = 'users' and due_ns >= window_from_ns and due_ns < window_to_ns
group by samples.case_name order by samples.case_name

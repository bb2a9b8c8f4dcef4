#!lua
-- Keeps a claim to a host's robots.txt, or that it cannot be had, unless the crawl has a record of the
-- file: who fails to get it may be late, and another has it by now (politeness/robots_store.py).
--
-- KEYS  1 where what is known of the file is kept
-- ARGV  1 what to keep, 2 for how many seconds, 3 what records of this crawl begin with
-- Reply 1 if it is kept now, 0 if there is a record
local kept, mark = redis.pcall('GET', KEYS[1]), ARGV[3]
if type(kept) == 'string' and #mark > 0 and kept:sub(1, #mark) == mark then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1

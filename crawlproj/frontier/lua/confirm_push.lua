#!lua flags=allow-oom
-- Tells whether the last push of a worker is still here: a server that took over from a master may
-- lack it. Writes its number again, so that the caller's connection has a write of its own, after
-- that push, for which WAIT can wait.
--
-- ARGV  2 worker, 3 number of its last push that was answered
-- Reply 1 if it is here, 0 if it was lost
--include _crawl.lua
local pushes = 'push:' .. ARGV[2]
local found = tonumber(redis.call('HGET', META, pushes) or 0)
if found < tonumber(ARGV[3]) then return 0 end
redis.call('HSET', META, pushes, found)
return 1

#!lua flags=allow-oom
-- Removes a worker that has settled or returned all that it held. If it still holds something, it
-- counts as dead from now on, and reclaim.lua takes that back.
--
-- ARGV  2 worker
-- Reply 1 if it was removed, 0 if it still holds something
--include _crawl.lua
--include _elapsed.lua
count_time(false)
if redis.call('EXISTS', LEASED .. ARGV[2]) == 1 then
  redis.call('ZADD', WORKERS, 'XX', NOW, ARGV[2])
  return 0
end
redis.call('ZREM', WORKERS, ARGV[2])
redis.call('HDEL', ABOUT, ARGV[2])
redis.call('HDEL', META, 'push:' .. ARGV[2], 'drain:' .. ARGV[2])
return 1

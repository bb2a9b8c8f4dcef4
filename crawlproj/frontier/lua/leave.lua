#!lua flags=allow-oom
-- A worker says goodbye, having settled or returned all that it held. What it still
-- holds is left for reclaim to find.
--
-- ARGV  2 worker
-- Reply 1 if it left, 0 if it still holds something and will be reclaimed at once
--include _crawl.lua
--include _elapsed.lua
count_time(false)
if redis.call('EXISTS', LEASED .. ARGV[2]) == 1 then
  redis.call('ZADD', WORKERS, 'XX', NOW, ARGV[2])
  return 0
end
redis.call('ZREM', WORKERS, ARGV[2])
redis.call('HDEL', ABOUT, ARGV[2])
redis.call('HDEL', META, 'push:' .. ARGV[2])
return 1

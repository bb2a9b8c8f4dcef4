#!lua flags=allow-oom
-- Removes a worker that has settled or returned all that it held, and has heard all that it was told of
-- others. If not, it counts as dead from now on, and reclaim.lua sees to that.
--
-- ARGV  2 worker
-- Reply 1 if it was removed, 0 if not
--include _crawl.lua
--include _elapsed.lua
--include _replies.lua
count_time(false)
if redis.call('EXISTS', LEASED .. ARGV[2]) == 1 or redis.call('HEXISTS', REPLIES, 'lost ' .. ARGV[2]) == 1 then
  redis.call('ZADD', WORKERS, 'XX', NOW, ARGV[2])
  return 0
end
redis.call('ZREM', WORKERS, ARGV[2])
redis.call('HDEL', ABOUT, ARGV[2])
redis.call('HDEL', META, 'push:' .. ARGV[2], 'drain:' .. ARGV[2])
settlements.forget(ARGV[2])
return 1

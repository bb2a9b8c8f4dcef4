#!lua flags=allow-oom
-- The crawl's page budget is used up: what is still queued or delayed is filtered,
-- some hosts a call.
--
-- ARGV  2 hosts to empty at most, 3 reason
-- Reply URLs that are still queued or delayed
--include _crawl.lua
--include _hosts.lua
local most = tonumber(ARGV[2])
for _, packed in ipairs(redis.call('ZRANGE', DELAYED, 0, most - 1)) do
  redis.call('ZREM', DELAYED, packed)
  count('delayed', -1)
  count('filtered:' .. ARGV[3], 1)
end
for _, key in ipairs({READY, WAITING}) do
  for _, name in ipairs(redis.call('ZRANGE', key, 0, most - 1)) do
    drop_queue(name, load_host(name), ARGV[3])
  end
end
save_hosts()
save_counts()
local left = redis.call('HMGET', COUNTS, 'queued', 'delayed')
return tonumber(left[1] or 0) + tonumber(left[2] or 0)

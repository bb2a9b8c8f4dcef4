#!lua flags=allow-oom
-- Ends the crawl on this shard, if nothing is left to do here: 'running' becomes
-- 'finished', 'stopping' becomes 'stopped' once no lease is out.
--
-- ARGV  2 1 if the other shards have nothing left either, 0 if they may have
--       3 how often the crawl had been opened again (reopen.lua) when the other shards were looked
--         at; '' if there are none
-- Reply the state afterwards
--include _crawl.lua
--include _elapsed.lua
--include _history.lua
count_time(false)
local is_current = ARGV[3] == '' or (redis.call('HGET', META, 'reopened') or '0') == ARGV[3]
local left = redis.call('HMGET', COUNTS, 'queued', 'delayed', 'leased')
local queued, delayed, leased = tonumber(left[1] or 0), tonumber(left[2] or 0), tonumber(left[3] or 0)
if STATE == 'running' and ARGV[2] == '1' and is_current and queued + delayed + leased == 0 then
  STATE = 'finished'
elseif STATE == 'stopping' and leased == 0 then
  STATE = 'stopped'
else
  return STATE
end
redis.call('HSET', META, 'state', STATE, 'finished_ms', NOW)
redis.call('UNLINK', UPDATES)
record_history(NOW, true)
return STATE

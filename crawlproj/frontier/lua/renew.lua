#!lua flags=allow-oom
-- A worker's heartbeat: renews all that it holds, at once.
--
-- ARGV  2 worker, 3 ms until it counts as dead unless it renews again
--       4 JSON it tells about itself
-- Reply {1 if it was known until now, 0 if it is new or had been declared dead; state; changes
--        of pace so far, see change_pace.lua; leases that it holds; 1 if it is to leave}
--include _crawl.lua
--include _elapsed.lua
--include _history.lua
count_time(true)
local added = redis.call('ZADD', WORKERS, NOW + tonumber(ARGV[3]), ARGV[2])
redis.call('HSET', ABOUT, ARGV[2], ARGV[4])
if not is_over() then record_history(NOW) end
if added == 1 and STATE ~= 'finished' then
  -- All workers that ever took part, for the summary; some hundreds of names will do. An older
  -- version has kept them as 'crew'.
  local names = redis.call('HGET', META, 'all_workers') or redis.call('HGET', META, 'crew') or ''
  if #names < 20000 and not names:find(ARGV[2] .. ' ', 1, true) then
    redis.call('HSET', META, 'all_workers', names .. ARGV[2] .. ' ')
  end
end
return {1 - added, STATE, tonumber(redis.call('HGET', META, 'paces') or 0),
        redis.call('HLEN', LEASED .. ARGV[2]), redis.call('HEXISTS', META, 'drain:' .. ARGV[2])}

-- Included by who puts a worker among those that are alive, after _elapsed.lua.

-- Counts a worker as alive for so long; returns 1 if it was not among them.
local function enrol(worker, timeout_ms, about)
  count_time(true)
  local added = redis.call('ZADD', WORKERS, NOW + timeout_ms, worker)
  redis.call('HSET', ABOUT, worker, about)
  if added == 1 and STATE ~= 'finished' then
    -- All workers that ever took part, for the summary; some hundreds of names will do. An older
    -- version has kept them as 'crew'.
    local names = redis.call('HGET', META, 'all_workers') or redis.call('HGET', META, 'crew') or ''
    if #names < 20000 and not names:find(worker .. ' ', 1, true) then
      redis.call('HSET', META, 'all_workers', names .. worker .. ' ')
    end
  end
  return added
end

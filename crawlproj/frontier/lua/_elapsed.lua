-- Included by heartbeats and by operations that pause, resume or end a crawl: the time in which it
-- ran. META keeps it:
--   ran_ms        how long the crawl has run so far
--   ran_until_ms  up to when that has been counted
-- The crawl runs while it is neither paused nor over and a worker is alive. From one of these
-- operations to the next counts if that is so at the later one: heartbeats are close enough. What
-- lies between the last word of the last worker and the first of the next does not count.

local ALIVE = redis.call('ZCOUNT', WORKERS, NOW, '+inf') > 0

local function is_over() return STATE == 'finished' or STATE == 'stopped' end

-- `arrives` is true for the caller that is at it from now on.
local function count_time(arrives)
  if not (ALIVE or arrives) or is_over() then return end
  local found = redis.call('HMGET', META, 'ran_until_ms', 'started_ms')
  local until_ms = tonumber(found[1] or found[2] or NOW)
  local counts = (ALIVE or not found[1]) and STATE ~= 'paused' and NOW > until_ms
  if counts then redis.call('HINCRBY', META, 'ran_ms', NOW - until_ms) end
  redis.call('HSET', META, 'ran_until_ms', NOW)
end

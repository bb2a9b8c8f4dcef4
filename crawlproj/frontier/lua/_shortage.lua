-- Included by lease.lua: URLs that one worker has ahead count at their hosts as connections, so they
-- are kept from workers that could begin with them now. A worker that gets less than it could begin
-- leaves a note, and while that is fresh nobody takes more than it begins with, but for what the others
-- leave. With one worker there is none.

-- As long as a worker without work sleeps, twice (POLL_S in worker/exchange.py).
local FRESH_MS = 1000

-- Whether other workers may be without work; how many connections one of them had idle.
local idle
local function others_are_short()
  if not SHORTAGE then return false end
  local until_ms, connections = SHORTAGE:match('^(%d+) (%d+)$')
  idle = tonumber(connections)
  return until_ms and tonumber(until_ms) > NOW or false
end

-- Hosts that are due beyond what all others could begin with, if all were without work.
local function spare_hosts()
  return redis.call('ZCARD', READY) - idle * (redis.call('ZCARD', WORKERS) - 1)
end

-- This worker has so many connections idle. Written twice while the note is fresh, not with every call.
local function note_shortage(connections)
  local until_ms = SHORTAGE and tonumber(SHORTAGE:match('^(%d+)')) or 0
  if until_ms > NOW + FRESH_MS / 2 or redis.call('ZCARD', WORKERS) < 2 then return end
  redis.call('HSET', META, 'shortage', ('%d %d'):format(NOW + FRESH_MS, connections))
end

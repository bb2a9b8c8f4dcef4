#!lua flags=allow-oom
-- Ends turns at hosts that several crawls ask: see take_turns.lua.
--
-- KEYS  one a turn, all of one slot
-- ARGV  for each key: the turn's name, ms since the request ended, ms to rest from then on (0: there
--       was no request), ms to leave the host alone
local KEPT_MS = 120000
local time = redis.call('TIME')
local NOW = time[1] * 1000 + math.floor(time[2] / 1000)

for i = 1, #KEYS do
  local key, at = KEYS[i], 4 * i - 3
  local turn, end_ms = ARGV[at], NOW - ARGV[at + 1]
  local rest_ms, hold_ms = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if rest_ms > 0 then
    redis.call('HSET', key, turn, ('%d %d'):format(end_ms, rest_ms))
  else
    redis.call('HDEL', key, turn)
  end
  if hold_ms > 0 and NOW + hold_ms > (tonumber(redis.call('HGET', key, 'hold') or 0) or 0) then
    redis.call('HSET', key, 'hold', NOW + hold_ms)
  end
  local kept_ms = math.max(KEPT_MS, rest_ms, hold_ms)
  if redis.call('PTTL', key) < kept_ms then redis.call('PEXPIRE', key, kept_ms) end
end
return #KEYS

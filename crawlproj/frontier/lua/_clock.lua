-- Included by _crawl.lua and open.lua: the crawl's clock. It is the server's, less its steps: when
-- that is set back, or forward by more than can have passed, `skew_ms` in META makes up for it.
-- Every time that is stored is of this clock, so a step moves none of them: hosts rest no longer
-- and no shorter, and no living worker counts as dead.
--
-- How far the server's clock can have gone on since the last script here is known from the caller:
-- `asked_ms` ago, by its own clock, it sent a call that has been answered. One that has had no
-- answer yet knows nothing, and then all that has passed is believed.
local STEP_MS, TICK_MS = 2000, 200

local function read_clock(meta, skew_ms, last_ms, asked_ms)
  local time = redis.call('TIME')
  local server_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local skew, passed_ms = tonumber(skew_ms or 0), server_ms - (tonumber(last_ms) or server_ms - TICK_MS)
  local step_ms = 0
  if passed_ms < 0 then
    step_ms = passed_ms
  elseif asked_ms and passed_ms > asked_ms + STEP_MS then
    step_ms = passed_ms - asked_ms
  end
  if step_ms ~= 0 then
    skew = skew - step_ms
    redis.call('HSET', meta, 'skew_ms', skew, 'clock_ms', server_ms)
  elseif passed_ms >= TICK_MS then
    redis.call('HSET', meta, 'clock_ms', server_ms)
  end
  return server_ms + skew, server_ms
end

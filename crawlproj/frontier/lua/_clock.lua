-- Included by _crawl.lua and open.lua: the crawl's clock. It is the server's, less its steps: when
-- that is set back, or forward by more than can have passed, `skew_ms` in META makes up for it.
-- Every time that is stored is of this clock, so a step moves none of them: hosts rest no longer
-- and no shorter, and no living worker counts as dead.
--
-- How far the server's clock can have gone on since the last script here (`last_ms`) is known from
-- the caller, who tells of its own clock:
--   asked_ms   so long ago it sent a call that has been answered. One that has had no answer yet
--              knows nothing, and then all that has passed is believed.
--   step_ms, before_ms   by so much the clock has stepped since before_ms, when a script ran
-- asked_ms is of when the call was sent. A server that stalled or slept while the call was on its way
-- looks from here like one whose clock was set. The script then does nothing and answers CLOCK, by
-- which the caller can tell the one from the other, and calls again (script_calls.py).
local STEP_MS, TICK_MS = 2000, 200

-- The time, or nil and the answer to who is in doubt.
local function read_clock(meta, skew_ms, last_ms, told)
  local time = redis.call('TIME')
  local server_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local skew, passed_ms = tonumber(skew_ms or 0), server_ms - (tonumber(last_ms) or server_ms - TICK_MS)
  local step_ms = 0
  if passed_ms < 0 then
    step_ms = passed_ms
  elseif told and told.before_ms == last_ms then
    step_ms = tonumber(told.step_ms)
  elseif told and told.asked_ms and passed_ms > told.asked_ms + STEP_MS then
    return nil, string.format('CLOCK %.0f %s', server_ms, last_ms)
  end
  if step_ms ~= 0 then
    skew = skew - step_ms
    redis.call('HSET', meta, 'skew_ms', skew, 'clock_ms', server_ms)
  elseif passed_ms >= TICK_MS then
    redis.call('HSET', meta, 'clock_ms', server_ms)
  end
  return server_ms + skew
end

-- Included by heartbeats and by whatever ends or clears a crawl: its history on this shard.
--
-- HISTORY has a list for each step of time, the latest moment last, of msgpack of
--   s, discovered, queued, delayed, leased, done, dead, bytes, hosts, workers alive, bytes that the server uses
-- The first heartbeat after a step has passed writes one. Counts are totals, so a coarse list needs
-- no sums of the fine one, and a moment that is missing leaves a gap that divides evenly. META keeps
-- recorded_s, when the last was written.
local STEPS = {{10, 360}, {120, 720}, {3600, 1440}}  -- seconds, moments at most: as in history.py

local function used_memory()
  local told = redis.pcall('INFO', 'memory')
  return type(told) == 'string' and tonumber(told:match('used_memory:(%d+)')) or 0
end

local function moment(now_s, now_ms)
  local values = redis.call('HMGET', COUNTS, 'discovered', 'queued', 'delayed', 'leased', 'done', 'dead', 'bytes')
  for i = 1, #values do values[i] = tonumber(values[i] or 0) or 0 end
  values[#values + 1] = redis.call('HLEN', HOSTS)
  values[#values + 1] = redis.call('ZCOUNT', WORKERS, now_ms, '+inf')
  values[#values + 1] = used_memory()
  return cmsgpack.pack(now_s, unpack(values))
end

-- `is_last` is true for a moment that no other will follow.
local function record_history(now_ms, is_last)
  local now_s = math.floor(now_ms / 1000)
  local last_s = tonumber(redis.call('HGET', META, 'recorded_s') or 0) or 0
  local packed
  for _, step in ipairs(STEPS) do
    local step_s, most = step[1], step[2]
    if is_last or math.floor(now_s / step_s) > math.floor(last_s / step_s) then
      packed = packed or moment(now_s, now_ms)
      redis.call('RPUSH', HISTORY .. step_s, packed)
      redis.call('LTRIM', HISTORY .. step_s, -most, -1)
    end
  end
  if packed then redis.call('HSET', META, 'recorded_s', now_s) end
end

local function forget_history()
  for _, step in ipairs(STEPS) do redis.call('UNLINK', HISTORY .. step[1]) end
end

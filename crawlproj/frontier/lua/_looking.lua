-- Included after _keys.lua by scripts that look at a shard and change nothing, not even the crawl's
-- clock (_clock.lua): what time that shows, and how long the queue of a host is.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + (tonumber(redis.call('HGET', META, 'skew_ms')) or 0)

-- How many URLs a host has in its queue. Its record begins with the levels of the queue, or the only
-- one; it may be damaged.
local function count_queued(name, packed)
  local ok, levels = pcall(cmsgpack.unpack, packed)
  if type(levels) == 'number' then levels = {levels} end
  local urls = 0
  for _, level in ipairs(ok and type(levels) == 'table' and levels or {}) do
    urls = urls + redis.call('LLEN', QUEUE .. level .. ':' .. name)
  end
  return urls
end

#!lua flags=allow-oom
-- Unlinks the keys of a crawl that are named after its hosts, groups, workers and patterns, and those
-- that say what became of its URLs, some a call, before another crawl begins in its place. Does nothing once that one has begun.
--
-- KEYS  as in _keys.lua
-- ARGV  1 epoch of the crawl that is cleared away, '' if it has none left
--       2 what to look through: 1 hosts, 2 groups, 3 patterns, 4 workers, 5 outcomes
--       3 where to go on in it, 0 at first; 4 how many names of it to look at in this call
-- Reply {what to look through, where to go on}; the former is 0 when nothing is left to do
--include _keys.lua
if (redis.call('HGET', META, 'epoch') or '') ~= ARGV[1] then return {0, '0'} end
local what, cursor, most = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local gone = {}

local function queues_of(host, packed)
  local ok, levels = pcall(cmsgpack.unpack, packed)
  if type(levels) == 'number' then levels = {levels} end
  for _, level in ipairs(ok and type(levels) == 'table' and levels or {}) do
    gone[#gone + 1] = QUEUE .. tostring(level) .. ':' .. host
  end
end

local function named(prefix) return function(name) gone[#gone + 1] = prefix .. name end end

-- Outcomes are in buckets with numbers: what is looked at is how many there are.
local function clear_outcomes()
  local buckets = tonumber(redis.call('HGET', META, 'outcomes') or 0) or 0
  local first = tonumber(cursor)
  for bucket = first, math.min(buckets, first + tonumber(most)) - 1 do
    gone[#gone + 1] = OUTCOMES .. ('%.0f'):format(bucket)
  end
  if #gone > 0 then
    redis.call('UNLINK', unpack(gone))
    return {5, tostring(first + #gone)}
  end
  redis.call('UNLINK', OUTCOMES .. 'names')
  redis.call('HDEL', META, 'outcomes')
  return {0, '0'}
end

if what == 5 then return clear_outcomes() end
local steps = {{HOSTS, 'HSCAN', queues_of}, {GROUPS, 'HSCAN', named(LINE)},
               {PATTERNS, 'HSCAN', named(SET_ASIDE)}, {WORKERS, 'ZSCAN', named(LEASED)}}
local key, scan, note = unpack(steps[what])
local found = redis.call(scan, key, cursor, 'COUNT', most)
for i = 1, #found[2], 2 do note(found[2][i], found[2][i + 1]) end
for first = 1, #gone, 1000 do redis.call('UNLINK', unpack(gone, first, math.min(first + 999, #gone))) end
if found[1] ~= '0' then return {what, found[1]} end
redis.call('UNLINK', key)
return {what + 1, '0'}

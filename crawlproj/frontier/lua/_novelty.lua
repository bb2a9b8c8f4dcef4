-- Included after _hosts.lua where links are found: counts the links to a URL. While it is queued,
-- FOUND keeps how often it was found, its level and its entry; when it is found again it moves to a
-- better queue. Only for the strategy that asks for it (META novelty).
local function first_found(name, level, entry)
  local key = NOVELTY and found_key(name, entry)
  if key then redis.call('HSET', FOUND, key, cmsgpack.pack({1, level, entry})) end
end

local function read_found(packed)
  local ok, found = pcall(cmsgpack.unpack, packed)
  if not ok or type(found) ~= 'table' then return end
  local times, level, entry = unpack(found, 1, 3)
  if type(times) == 'number' and type(level) == 'number' and type(entry) == 'string' then
    return times, level, entry
  end
end

local function found_again(name, pushed)
  local key = NOVELTY and found_key(name, pushed)
  local times, level, entry = read_found(key and redis.call('HGET', FOUND, key))
  if not times then return end
  local better = math.min(1000, math.floor(NOVELTY.per_link * (times + 1) + 0.5))
  -- From the end: what was found lately is what is found again.
  if better > level and redis.call('LREM', queue_of(name, level), -1, entry) == 1 then
    count('queued', -1)
    drop_empty_level(name, level)
    enqueue(name, better, entry, false)
    level = better
  end
  redis.call('HSET', FOUND, key, cmsgpack.pack({times + 1, level, entry}))
end

-- Included after _hosts.lua where links are found: adds up what the links to a URL are worth. While it
-- is queued, FOUND keeps the sum, its level and its entry; when it is found again it moves to a better
-- queue. Only for the strategies that ask for it (META novelty): a link is worth 1, or under `opic`
-- the cash that its level stands for.
local function worth_of(level) return NOVELTY.steps and 2 ^ (level / NOVELTY.steps) or 1 end

local function level_of(worth)
  if not NOVELTY.steps then return math.min(1000, math.floor(NOVELTY.per_link * worth + 0.5)) end
  return math.max(-1000, math.min(1000, math.floor(NOVELTY.steps * math.log(worth) / math.log(2) + 0.5)))
end

local function first_found(name, level, entry)
  local key = NOVELTY and found_key(name, entry)
  if key then redis.call('HSET', FOUND, key, cmsgpack.pack({worth_of(level), level, entry})) end
end

local function read_found(packed)
  local ok, found = pcall(cmsgpack.unpack, packed)
  if not ok or type(found) ~= 'table' then return end
  local worth, level, entry = unpack(found, 1, 3)
  if type(worth) == 'number' and type(level) == 'number' and type(entry) == 'string' then
    return worth, level, entry
  end
end

local function found_again(name, pushed_level, pushed)
  local key = NOVELTY and found_key(name, pushed)
  local worth, level, entry = read_found(key and redis.call('HGET', FOUND, key))
  if not worth then return end
  worth = worth + worth_of(pushed_level)
  local better = level_of(worth)
  -- From the end: what was found lately is what is found again.
  if better > level and redis.call('LREM', queue_of(name, level), -1, entry) == 1 then
    count('queued', -1)
    drop_empty_level(name, level)
    enqueue(name, better, entry, false)
    level = better
  end
  redis.call('HSET', FOUND, key, cmsgpack.pack({worth, level, entry}))
end

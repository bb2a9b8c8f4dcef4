-- Included after _hosts.lua where URLs may belong to a pattern that brings nothing new: they are
-- counted as filtered and set aside, so that releasing the pattern brings them back. The first
-- of them makes the pattern known to all. META patterns counts the changes.
local MOST_PATTERNS, MOST_SET_ASIDE = 10000, 1000

-- Why, since when, released when (0: not) and of how many URLs; nothing if it is not known.
local function read_pattern(field)
  local ok, record = pcall(cmsgpack.unpack, redis.call('HGET', PATTERNS, field) or nil)
  if ok and type(record) == 'table' and #record == 4 then return unpack(record) end
end

local function save_pattern(field, why, since, released, urls)
  redis.call('HSET', PATTERNS, field, cmsgpack.pack({why, since, released, urls}))
end

-- A URL that a worker will not fetch because of its pattern. True if it is to be queued after all:
-- the pattern has been released, which the worker may not know yet. With too many patterns it is
-- only counted: if it were queued, the worker would never fetch it and the crawl never end.
local function set_aside(name, pattern, why, kind, level, entry, key)
  local field = name .. ' ' .. pattern
  local known_why, since, released, urls = read_pattern(field)
  if not known_why then
    if redis.call('HLEN', PATTERNS) >= MOST_PATTERNS then
      count('filtered:pattern', 1)
      return false
    end
    known_why, since, released, urls = why, NOW, 0, 0
    redis.call('HINCRBY', META, 'patterns', 1)
  end
  if released > 0 then return true end
  save_pattern(field, known_why, since, released, urls + 1)
  if redis.call('LLEN', SET_ASIDE .. field) < MOST_SET_ASIDE then
    redis.call('RPUSH', SET_ASIDE .. field, cmsgpack.pack({kind, level, entry, key}))
  end
  count('filtered:pattern', 1)
  return false
end

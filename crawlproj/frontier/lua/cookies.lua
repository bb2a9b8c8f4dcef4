#!lua flags=allow-oom
-- Keeps the cookies that sites have given a worker, for all workers of the crawl, and counts the
-- changes: each lease tells how many there were. Of a domain that gives too many, those
-- set longest ago go. Also when Redis is out of memory: pages wait for it before they are settled.
--
-- ARGV  2 msgpack list of domain, list of id and cookie ('' if it is gone), of one domain after
--         the other; empty on shards that only tell of it
--       3 most cookies of a domain, 4 most bytes of them
-- Reply changes so far
--include _crawl.lua
local MOST, MOST_BYTES = tonumber(ARGV[3]), tonumber(ARGV[4])

-- What is kept of a domain, as ids and cookies, oldest first; nothing where it cannot be read.
local function kept_of(domain)
  local packed = redis.call('HGET', COOKIES, domain)
  local ok, kept = pcall(cmsgpack.unpack, packed or '')
  local found = {}
  if not packed or not ok or type(kept) ~= 'table' then return found end
  for i = 1, #kept - 1, 2 do
    if type(kept[i]) == 'string' and type(kept[i + 1]) == 'string' then
      found[#found + 1], found[#found + 2] = kept[i], kept[i + 1]
    end
  end
  return found
end

-- The newest of these ids and cookies that have room.
local function within_bounds(all)
  local first, bytes = #all + 1, 0
  while first > 1 do
    bytes = bytes + #all[first - 2] + #all[first - 1]
    if bytes > MOST_BYTES or (#all + 1 - first) / 2 >= MOST then break end
    first = first - 2
  end
  local found = {}
  for i = first, #all do found[#found + 1] = all[i] end
  return found
end

local changes = cmsgpack.unpack(ARGV[2])
for i = 1, #changes, 2 do
  local domain, new, is_new, all = changes[i], changes[i + 1], {}, {}
  for j = 1, #new, 2 do is_new[new[j]] = true end
  local kept = kept_of(domain)
  for j = 1, #kept, 2 do
    if not is_new[kept[j]] then all[#all + 1], all[#all + 2] = kept[j], kept[j + 1] end
  end
  for j = 1, #new, 2 do
    if new[j + 1] ~= '' then all[#all + 1], all[#all + 2] = new[j], new[j + 1] end
  end
  all = within_bounds(all)
  if #all > 0 then
    redis.call('HSET', COOKIES, domain, cmsgpack.pack(all))
  else
    redis.call('HDEL', COOKIES, domain)
  end
end
return redis.call('HINCRBY', META, 'cookies', 1)

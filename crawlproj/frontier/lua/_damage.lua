-- Included by operations that move URLs, before _hosts.lua: what is stored here may have been
-- damaged, or put here by someone else. It is counted as 'corrupt' and set aside, URLs that
-- vanished with it are written off, and everything beside it goes on.

-- What a push brings: Kind in messages.py.
local KIND = {LINK = 0, SEED = 1, UNFILTERED = 2, FILTERED = 3, SET_ASIDE = 4}

-- Levels of pages; above them the seeds of a crawl with a page budget (seed_level() in levels.py),
-- then pages that are due to be revisited, a robots.txt that has moved here from another host, and
-- the host's own.
local LOWEST, HIGHEST, REVISIT, MOVED, FIRST = -1000, 1000, 1000.7, 1000.9, 1001
local damaged = false

-- The lines in which a host can stand, by the number that its record has for them.
local LINES = {[0] = false, 'ready', 'waiting'}

-- The key of a queue. The number is made text once: that takes longer than all the rest.
local queue_prefixes = {}
local function queue_of(name, level)
  local prefix = queue_prefixes[level]
  if not prefix then
    prefix = QUEUE .. level .. ':'
    queue_prefixes[level] = prefix
  end
  return prefix .. name
end

-- Numbers and the beginnings of texts as msgpack: the same few again and again. Putting records
-- together of them takes a third of what cmsgpack.pack takes for several values.
local packed_number = setmetatable({}, {__index = function(known, number)
  local packed = cmsgpack.pack(number)
  if number == number then known[number] = packed end  -- a damaged record can hold what is no number
  return packed
end})
local text_header = setmetatable({}, {__index = function(known, length)
  known[length] = cmsgpack.pack((' '):rep(length)):sub(1, -length - 1)
  return known[length]
end})

local function pack_url(name, level, entry)
  return text_header[#name] .. name .. packed_number[level] .. text_header[#entry] .. entry
end

-- Host, level and entry of a URL as DELAYED, LEASED and DEAD hold it, and the three values behind
-- them; nothing if it is unreadable.
local function read_url(packed)
  local ok, _, name, level, entry, fourth, fifth, sixth = pcall(cmsgpack.unpack_limit, packed, 6)
  if ok and type(name) == 'string' and type(level) == 'number' and type(entry) == 'string'
     and level >= LOWEST and level <= FIRST and (level % 1 == 0 or level > HIGHEST) then
    return name, level, entry, fourth, fifth, sixth
  end
end

-- The same of a lease: host, level, entry, whether it is kept, its group, and its twin (_copies.lua).
local function read_lease(packed)
  local name, level, entry, kept, group, twin = read_url(packed)
  return name, level, entry, kept, type(group) == 'string' and group or nil, type(twin) == 'string' and twin or nil
end

local function count_corrupt()
  damaged = true
  count('corrupt', 1)
end

-- URLs that the ledger says are in a state, where only so many are left.
local function write_off(state, left)
  local lost = tonumber(redis.call('HGET', COUNTS, state) or 0) + (moved[state] or 0) - left
  if lost > 0 then
    count(state, -lost)
    count('filtered:corrupt', lost)
  end
end

-- Requests that are out, URLs that are kept, and how many of both are copies, by host and by group,
-- and how many URLs are leased in all, from the leases themselves.
local function count_leases()
  local out, kept, copies, total, has_twin = {}, {}, {}, 0, {}
  local function note(counted, name, group)
    counted[name] = (counted[name] or 0) + 1
    if group then counted[group] = (counted[group] or 0) + 1 end
  end
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    local held = redis.call('HGETALL', LEASED .. worker)
    for i = 1, #held, 2 do
      local name, _, _, is_kept, group, twin = read_lease(held[i + 1])
      if name then
        note(is_kept and kept or out, name, group)
        if twin == '' or twin and has_twin[held[i]] then
          note(copies, name, group)
        else
          total = total + 1
        end
        if twin then has_twin[twin:match('^%d*')] = true end
      end
    end
  end
  return out, kept, copies, total
end

-- What page budgets keep no page for.
local function is_link(level) return level <= HIGHEST end
local function is_seed(level) return level > HIGHEST and level < REVISIT end

-- Under which name a host, its group and the ledger count what waits at a level and has a page of their
-- budgets kept for it: seeds, and pages that were woken (wake_resting.lua), which had one before.
local function kept_as(level) return is_seed(level) and 'reserved' or level == REVISIT and 'woken' or nil end

-- As text first, like Python: what is added up can differ in its last bit.
local function seed_level(priority)
  return tonumber(('%.5f'):format(HIGHEST + (priority - LOWEST + 1) / 4000))
end

-- The level by which a host stands among others. Its robots.txt goes before its own pages, not
-- before those of others: a page full of new hosts would else be asked about first, one and all.
local function best_level(levels)
  local best = levels[#levels]
  return best == FIRST and levels[#levels - 1] or best
end

-- Raises an error, or returns nothing, if it is unreadable. That a number is less than another
-- is a quicker test of its type than type(): what is none cannot be compared.
local function unpack_host(packed)
  local levels, out, cooling, pages, at, rest = cmsgpack.unpack(packed)
  local kind = type(levels)
  if kind == 'number' then levels = {levels} elseif kind ~= 'table' then return end
  local host = {levels = levels, out = out, cooling = cooling or {}, pages = pages,
                at = LINES[at] or nil, best = best_level(levels)}
  if rest then
    for name, value in pairs(rest) do host[name] = value end
  end
  if out < math.huge and pages < math.huge and LINES[at] ~= nil and (not cooling or type(cooling) == 'table') then
    return host
  end
end

-- A host's record as HOSTS holds it; nothing if it is unreadable.
local function read_host(packed)
  local ok, host = pcall(unpack_host, packed)
  return ok and host or nil
end

-- A group's record as GROUPS holds it; nothing if it is unreadable.
local function read_group(packed)
  local ok, group = pcall(cmsgpack.unpack, packed)
  if ok and type(group) == 'table' and type(group.out) == 'number'
     and type(group.cooling) == 'table' and type(group.pages) == 'number' then
    return group
  end
end

-- A host anew from its queues and leases; only the pages it has had cannot be known again, and
-- its group not before a link to it is found.
local function rebuild_host(name)
  count('corrupt', 1)
  local out, kept, copies = count_leases()
  local host = {levels = {}, out = out[name] or 0, kept = kept[name], copies = copies[name], cooling = {}, pages = 0}
  local function look(level)
    if redis.call('EXISTS', queue_of(name, level)) == 0 then return end
    table.insert(host.levels, level)
    local kept = kept_as(level)
    if kept then host[kept] = (host[kept] or 0) + redis.call('LLEN', queue_of(name, level)) end
  end
  for level = LOWEST, HIGHEST do look(level) end
  for priority = LOWEST, HIGHEST do look(seed_level(priority)) end
  look(REVISIT)
  look(MOVED)
  look(FIRST)
  redis.call('ZREM', READY, name)
  redis.call('ZREM', WAITING, name)
  return host
end

-- A group anew from its leases; only the pages it has had cannot be known again.
local function rebuild_group(name)
  count('corrupt', 1)
  local out, kept, copies = count_leases()
  redis.call('ZREM', READY, name)
  redis.call('ZREM', WAITING, name)
  return {out = out[name] or 0, kept = kept[name], copies = copies[name], cooling = {}, pages = 0}
end

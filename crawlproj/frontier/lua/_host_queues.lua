-- Included by _hosts.lua: reads and packs the records of hosts and groups; puts URLs into the hosts'
-- queues and drops them; reserves pages of the budgets for seeds and woken pages among them.
local hosts, names, stored, groups = {}, {}, {}, {}

-- Reads the records of hosts that may be needed, all at once.
local function fetch_hosts(wanted)
  local missing, n = {}, 0
  for i = 1, #wanted do
    local name = wanted[i]
    if stored[name] == nil then
      stored[name] = false
      n = n + 1
      missing[n] = name
    end
  end
  local found = read_fields(HOSTS, missing)
  for i = 1, n do stored[missing[i]] = found[i] end
end

local function load_host(name)
  local host = hosts[name]
  if not host then
    if stored[name] == nil then stored[name] = redis.call('HGET', HOSTS, name) end
    local packed = stored[name]
    host = packed and (read_host(packed) or rebuild_host(name))
           or {levels = {}, out = 0, cooling = {}, pages = 0}
    hosts[name] = host
    names[#names + 1] = name
  end
  return host
end

local function load_group(name)
  local group = groups[name]
  if not group then
    local packed = redis.call('HGET', GROUPS, name)
    group = packed and (read_group(packed) or rebuild_group(name)) or {out = 0, cooling = {}, pages = 0}
    groups[name] = group
  end
  return group
end

local function is_group(name)
  return (PACED or PAGES_PER_DOMAIN > 0) and not name:find('://', 1, true)
end

-- What a host may have beside what every host has; mostly nothing.
local function pack_rest(host)
  if not (host.kept or host.failures or host.hold or host.mentions or host.per or host.group
          or host.pause or host.reserved or host.revisit or host.last or host.copies
          or host.woken) then
    return ''
  end
  return cmsgpack.pack({kept = host.kept, failures = host.failures, hold = host.hold, mentions = host.mentions,
                        per = host.per, group = host.group, pause = host.pause, reserved = host.reserved,
                        why = host.hold and host.why, revisit = host.revisit,
                        turns = host.revisit and host.turns, last = host.last, copies = host.copies,
                        woken = host.woken})
end

local NOTHING = cmsgpack.pack(false)
local PACKED_AT = {ready = cmsgpack.pack(1), waiting = cmsgpack.pack(2)}
local PACKED_NOWHERE = cmsgpack.pack(0)

-- Most hosts have one level and do not rest; records are written often.
local function pack_host(host)
  local levels, cooling = host.levels, host.cooling
  return (#levels == 1 and packed_number[levels[1]] or cmsgpack.pack(levels))
         .. packed_number[host.out]
         .. (#cooling == 0 and NOTHING or cmsgpack.pack(cooling))
         .. packed_number[host.pages]
         .. (PACKED_AT[host.at] or PACKED_NOWHERE)
         .. pack_rest(host)
end

-- Levels are kept ascending, so that the best is the last. `first` puts an entry
-- that was out before back in front of those that have never been.
local function note_level(name, level)
  local levels = load_host(name).levels
  local i = #levels
  while i > 0 and levels[i] > level do i = i - 1 end
  if levels[i] ~= level then table.insert(levels, i + 1, level) end
end

-- A count of a host or group that has no field while it is 0.
local function add_to(unit, field, by)
  local total = (unit[field] or 0) + by
  unit[field] = total > 0 and total or nil
end

-- So many seeds or woken pages wait from now on, queued or delayed, or (-1) no longer do: page budgets
-- keep a page for each, which links do not get.
local function reserve(name, level, by)
  local kept = kept_as(level)
  if not kept then return end
  local host = load_host(name)
  add_to(host, kept, by)
  if host.group then add_to(load_group(host.group), kept, by) end
  count(kept, by)
end

local function enqueue(name, level, entry, first)
  redis.call(first and 'LPUSH' or 'RPUSH', queue_of(name, level), entry)
  note_level(name, level)
  reserve(name, level, 1)
  count('queued', 1)
end

-- The key under which a link was found, from its entry: host and path.
local function found_key(name, entry)
  local ok, record = pcall(cmsgpack.unpack, entry:sub(3))
  if ok and type(record) == 'table' and type(record[1]) == 'string' then return name .. record[1] end
end

-- What makes a request another than all others, as text, from its entry.
local function what_is_asked(name, entry)
  local what = entry:sub(3)
  local ok, record = pcall(cmsgpack.unpack, what)
  if ok and type(record) == 'table' and type(record[1]) == 'string' then
    local rest = type(record[4]) == 'table' and record[4] or {}
    what = record[1] .. '\n' .. tostring(rest.method or '') .. '\n' .. tostring(rest.body or '')
  end
  return name .. '\n' .. what
end

local function forget_found(name, entry)
  local key = found_key(name, entry)
  if key then redis.call('HDEL', FOUND, key) end
end

local function drop_empty_level(name, level)
  if redis.call('EXISTS', queue_of(name, level)) == 1 then return end
  local levels = load_host(name).levels
  for i = #levels, 1, -1 do
    if levels[i] == level then table.remove(levels, i) end
  end
end

-- Drops what a host has queued, best first: all of it, but under NOVELTY no more than may be forgotten.
local drop_queue
do  -- a block of its own, for a script may have 200 local variables at a time
  -- Links that are looked up one by one for it, in one script: Redis does nothing else meanwhile.
  local may_forget = 2000

  -- Takes the first of a queue out, as many as may be forgotten; how many, and whether more are left.
  local function take_dropped(name, key)
    local entries = may_forget > 0 and redis.call('LPOP', key, may_forget) or {}
    for _, entry in ipairs(entries) do forget_found(name, entry) end
    may_forget = may_forget - #entries
    return #entries, redis.call('EXISTS', key) == 1
  end

  function drop_queue(name, host, reason)
    local left = {}
    for i = #host.levels, 1, -1 do
      local level = host.levels[i]
      local key = queue_of(name, level)
      local dropped, has_more = redis.call('LLEN', key), false
      if NOVELTY then
        dropped, has_more = take_dropped(name, key)
      else
        redis.call('UNLINK', key)
      end
      if has_more then table.insert(left, 1, level) end
      reserve(name, level, -dropped)
      count('queued', -dropped)
      count('filtered:' .. reason, dropped)
    end
    host.levels = left
  end
end

-- A robots.txt that has moved here from another host is no page of this one, and the pages of the
-- other wait for it: budgets do not hold it back, and it is not dropped with the rest. True if there is
-- more to drop.
local function drop_own(name, host, reason)
  local moved_here
  for i = #host.levels, 1, -1 do
    if host.levels[i] == MOVED then moved_here = table.remove(host.levels, i) end
  end
  drop_queue(name, host, reason)
  local has_more = #host.levels > 0
  if moved_here then note_level(name, MOVED) end
  return has_more
end

local function is_moved_next(host) return host.levels[#host.levels] == MOVED end

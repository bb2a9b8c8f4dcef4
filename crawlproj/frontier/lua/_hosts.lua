-- Included by operations that move URLs: a host's queue and its place in line.
-- A host is loaded once a script, changed in memory, and put back by save_hosts().
-- They are put back in the order in which they were loaded: first come, first served.
local hosts, names, stored = {}, {}, {}

-- Reads the records of hosts that may be needed, all at once.
local function fetch_hosts(wanted)
  local missing = {}
  for _, name in ipairs(wanted) do
    if stored[name] == nil then
      stored[name] = false
      missing[#missing + 1] = name
    end
  end
  for i, packed in ipairs(read_fields(HOSTS, missing)) do stored[missing[i]] = packed end
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

local EVERY_HOST_HAS = {levels = true, out = true, cooling = true, pages = true, at = true, best = true}

local function pack_host(host)
  local rest
  for name, value in pairs(host) do
    if not EVERY_HOST_HAS[name] then
      rest = rest or {}
      rest[name] = value
    end
  end
  local at = host.at or ''
  if not rest then return cmsgpack.pack(host.levels, host.out, host.cooling, host.pages, at) end
  return cmsgpack.pack(host.levels, host.out, host.cooling, host.pages, at, rest)
end

-- Levels are kept ascending, so that the best is the last. `first` puts an entry
-- that was out before back in front of those that have never been.
local function note_level(name, level)
  local levels = load_host(name).levels
  local i = #levels
  while i > 0 and levels[i] > level do i = i - 1 end
  if levels[i] ~= level then table.insert(levels, i + 1, level) end
  count('queued', 1)
end

local function enqueue(name, level, entry, first)
  redis.call(first and 'LPUSH' or 'RPUSH', QUEUE .. level .. ':' .. name, entry)
  note_level(name, level)
end

-- The key under which a link was found, from its entry: host and path.
local function found_key(name, entry)
  local ok, record = pcall(cmsgpack.unpack, entry:sub(3))
  if ok and type(record) == 'table' and type(record[1]) == 'string' then return name .. record[1] end
end

local function forget_found(name, entry)
  local key = found_key(name, entry)
  if key then redis.call('HDEL', FOUND, key) end
end

local function drop_empty_level(name, level)
  if redis.call('EXISTS', QUEUE .. level .. ':' .. name) == 1 then return end
  local levels = load_host(name).levels
  for i = #levels, 1, -1 do
    if levels[i] == level then table.remove(levels, i) end
  end
end

-- Up to `most` entries of the host's best level: their level, and a list.
local function dequeue(name, most)
  local levels = load_host(name).levels
  local level = levels[#levels]
  if not level or most < 1 then return level, {} end
  local key = QUEUE .. level .. ':' .. name
  local entries = redis.call('LPOP', key, most) or {}
  if #entries < most or redis.call('EXISTS', key) == 0 then table.remove(levels) end
  count('queued', -#entries)
  if NOVELTY then
    for _, entry in ipairs(entries) do forget_found(name, entry) end
  end
  return level, entries
end

local function drop_queue(name, host, reason)
  for _, level in ipairs(host.levels) do
    local key = QUEUE .. level .. ':' .. name
    local dropped = redis.call('LLEN', key)
    if NOVELTY then
      for _, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do forget_found(name, entry) end
    end
    redis.call('UNLINK', key)
    count('queued', -dropped)
    count('filtered:' .. reason, dropped)
  end
  host.levels = {}
end

-- How many more requests may go to the host this instant: its connections less
-- those out and those still pausing, and what is left of its page budget.
local function free_slots(host)
  local free = PER_HOST - host.out - #host.cooling
  if PAGES_PER_HOST > 0 then free = math.min(free, PAGES_PER_HOST - host.pages - host.out - (host.kept or 0)) end
  return free
end

local turns_taken = tonumber(CRAWL[12] or 0)
local turns = turns_taken

-- Best level first, then whoever has waited longest: a turn number in the low 35 bits.
local function ready_score(host)
  turns = turns + 1
  local priority = host.levels[#host.levels]
  if NOVELTY then
    priority = priority + math.max(0, NOVELTY.start - NOVELTY.per_page * host.pages)
               + NOVELTY.per_mention * (host.mentions or 0)
  end
  return math.floor((1000 - math.min(priority, 2000)) * 100 + 0.5) * 2 ^ 35 + turns
end

-- Hosts that leave a line, and those that join it, by their score: done by save_lines().
local LINES = {ready = READY, waiting = WAITING}
local leaving, joining = {ready = {}, waiting = {}}, {ready = {}, waiting = {}}

local function move(name, host, where, score)
  local from = host.at
  if from and from ~= where then
    joining[from][name] = nil
    leaving[from][name] = true
  end
  if where then
    leaving[where][name] = nil
    joining[where][name] = score
  end
  host.at = where
end

local function save_lines()
  for at, key in pairs(LINES) do
    local gone, come = {}, {}
    for name in pairs(leaving[at]) do gone[#gone + 1] = name end
    for name, score in pairs(joining[at]) do
      come[#come + 1] = score
      come[#come + 1] = name
    end
    call_in_pieces('ZREM', key, gone)
    call_in_pieces('ZADD', key, come)
    leaving[at], joining[at] = {}, {}
  end
  if turns > turns_taken then redis.call('HSET', META, 'turns', turns) end
  turns_taken = turns
end

-- Forgets rests that are over; when the first of the others is.
local function rest_from_now(host)
  if #host.cooling == 0 then return nil end
  local cooling, first_due = {}, nil
  for _, due in ipairs(host.cooling) do
    if due > NOW then
      cooling[#cooling + 1] = due
      first_due = math.min(first_due or due, due)
    end
  end
  host.cooling = cooling
  return first_due
end

-- Puts a host where it belongs after anything about it has changed. A host that is
-- held (it asked for it, or it fails) waits until then, whatever else is free.
local function place(name, host)
  local first_due = rest_from_now(host)
  if PAGES_PER_HOST > 0 and host.pages >= PAGES_PER_HOST then
    drop_queue(name, host, 'host_limit')
  end
  if GIVE_UP > 0 and (host.failures or 0) >= GIVE_UP then drop_queue(name, host, 'host_down') end
  if host.hold and host.hold <= NOW then host.hold = nil end
  local best = host.levels[#host.levels]
  if best and host.hold then
    move(name, host, 'waiting', host.hold)
  elseif best and free_slots(host) > 0 then
    if host.at ~= 'ready' or host.best ~= best then move(name, host, 'ready', ready_score(host)) end
  elseif best and first_due then
    move(name, host, 'waiting', first_due)
  else
    move(name, host, nil)
  end
  host.best = best
end

local function save_hosts()
  local changed = {}
  for _, name in ipairs(names) do
    place(name, hosts[name])
    local packed = pack_host(hosts[name])
    if packed ~= stored[name] then
      changed[#changed + 1] = name
      changed[#changed + 1] = packed
    end
  end
  save_lines()
  call_in_pieces('HSET', HOSTS, changed)
end

-- A request to the host has ended `ago_ms` ago; that connection now rests.
local function release_host(name, ago_ms, pause_ms)
  local host = load_host(name)
  host.out = host.out - 1
  if pause_ms > 0 then table.insert(host.cooling, NOW - ago_ms + pause_ms) end
  return host
end

-- A URL is kept by its worker though its request has ended, or (-1) no longer is.
local function count_kept(host, by)
  local kept = (host.kept or 0) + by
  host.kept = kept > 0 and kept or nil
  return host
end

-- What the request showed of the host: `failed` is 1 if it failed in a way that may
-- pass, -1 if it answered, 0 if neither is known; `hold_ms` is how long to leave it alone.
local function judge_host(host, failed, hold_ms)
  if failed > 0 then host.failures = (host.failures or 0) + 1 end
  if failed < 0 then host.failures = nil end
  if hold_ms > 0 then host.hold = math.max(host.hold or 0, NOW + hold_ms) end
end

-- An entry's first byte counts the attempts that have been made.
local function attempts_of(entry) return entry:byte(1) or 0 end
local function with_attempt(entry)
  return string.char(math.min(255, attempts_of(entry) + 1)) .. entry:sub(2)
end

-- The token tells apart equal requests that wait at the same time. A host whose robots.txt
-- is to be asked for again gets no other request before: its pages could only be put off.
local function delay(token, name, level, entry, due)
  if level == HIGHEST then
    local host = load_host(name)
    host.hold = math.max(host.hold or 0, due)
  end
  redis.call('ZADD', DELAYED, due, cmsgpack.pack({name, level, entry, token}))
  count('delayed', 1)
end

local function bury(token, name, level, entry, reason)
  redis.call('HSET', DEAD, token, cmsgpack.pack({name, level, entry, reason, NOW}))
  count('dead', 1)
  count('dead:' .. reason, 1)
end

-- After leases that could not be read: what they were is counted anew from those that can be.
local function mend_leases()
  local out, kept, total = count_leases()
  local all = redis.call('HKEYS', HOSTS)
  fetch_hosts(all)
  for _, name in ipairs(all) do
    local host = load_host(name)
    host.out, host.kept = out[name] or 0, kept[name]
  end
  write_off('leased', total)
end

-- Included by operations that move URLs: a host's queue and its place in line.
-- A host is loaded once a script, changed in memory, and put back by save_hosts().
-- They are put back in the order in which they were loaded: first come, first served.
--
-- Hosts may belong to a group: a registrable domain, or an address. It keeps one pace or one page
-- budget for them all, and stands in READY and WAITING in their place, while those of them that
-- could be contacted stand in its LINE. A group's name is told from a host's by having no scheme.
--include _host_queues.lua

-- What workers add to every pause: CLOCK_MS in worker/outcome.py.
local CLOCK_MS = 2

-- How many more requests of a level may go to a host or group this instant: its connections less
-- those out and those still pausing, and what is left of its page budget, of which copies (_copies.lua)
-- have none, for a seed less what is kept for woken pages, for a link less what is kept for seeds, too.
local function free_slots(unit, connections, pages, level)
  local free = connections - unit.out - #unit.cooling
  if pages > 0 and level ~= MOVED then
    local left = pages - unit.pages - unit.out - (unit.kept or 0) + (unit.copies or 0)
    if level and level < REVISIT then left = left - (unit.woken or 0) end
    if level and is_link(level) then left = left - (unit.reserved or 0) end
    free = math.min(free, left)
  end
  return free
end

-- A host that fails is probed by one request at a time, until it answers.
local function host_connections(host)
  if (host.failures or 0) > 0 then return 1 end
  return host.group and PACED and math.huge or host.per or PER_HOST
end

local function host_slots(host)
  return free_slots(host, host_connections(host), PAGES_PER_HOST, host.levels[#host.levels])
end

-- For the host whose turn it is in the group.
local function group_slots(group, host)
  local connections = PACED and (group.per or PER_HOST) or math.huge
  return free_slots(group, connections, PAGES_PER_DOMAIN, host.levels[#host.levels])
end

local function is_spent(group) return PAGES_PER_DOMAIN > 0 and group.pages >= PAGES_PER_DOMAIN end

local turns_taken = tonumber(CRAWL[12] or 0)
local turns = turns_taken

-- Best level first, in hundredths, then whoever has waited longest: a turn number in the low 35 bits.
-- Seeds with a level of their own stand before all links, by their own priority: whatever ranks a
-- link, it is not before 0. (Those that are withheld for seeds would else stand in their way.)
local function ready_score(host, best)
  turns = turns + 1
  local rank = (1000 - best) * 100
  if NOVELTY and is_link(best) then
    local priority = best + math.max(0, NOVELTY.start - NOVELTY.per_page * host.pages)
                     + NOVELTY.per_mention * (host.mentions or 0)
    rank = math.floor((2000 - math.min(priority, 2000)) * 100 + 0.5)
  end
  return rank * 2 ^ 35 + turns
end

-- What becomes of hosts and groups in each line: their new score, or false if they leave it. See
-- save_lines().
local moves = {}

local function note_move(name, unit, where, score)
  local line = where == 'waiting' and WAITING or unit.group and LINE .. unit.group or READY
  local members = moves[line]
  if members then
    members[name] = score
  else
    moves[line] = {[name] = score}
  end
end

local function move(name, unit, where, score)
  if unit.at and unit.at ~= where then note_move(name, unit, unit.at, false) end
  if where then note_move(name, unit, where, score) end
  unit.at = where
end

local function save_lines()
  for line, members in pairs(moves) do
    local gone, come, n = {}, {}, 0
    for name, score in pairs(members) do
      if score then
        come[n + 1], come[n + 2] = score, name
        n = n + 2
      else
        gone[#gone + 1] = name
      end
    end
    call_in_pieces('ZREM', line, gone)
    call_in_pieces('ZADD', line, come)
  end
  moves = {}
  if turns > turns_taken then redis.call('HSET', META, 'turns', turns) end
  turns_taken = turns
end

-- Forgets rests that are over; when the first of the others is.
local function rest_from_now(host)
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

-- When a host or group falls due, if it waits for that. One that is held (it asked for it, or it
-- fails) waits until then, whatever else is free.
local function wake_time(unit)
  local first_due = #unit.cooling > 0 and rest_from_now(unit) or nil
  if unit.hold and unit.hold <= NOW then unit.hold = nil end
  return unit.hold or first_due
end

-- Puts a host where it belongs after anything about it has changed. One that is given up is not
-- asked any more, so it need not rest: workers answer themselves for what has moved there. One of which
-- there is more to drop than may be now is placed again by the next lease.
local function place(name, host)
  local due, reason = wake_time(host), nil
  local is_given_up = GIVE_UP > 0 and (host.failures or 0) >= GIVE_UP
  if PAGES_PER_HOST > 0 and host.pages >= PAGES_PER_HOST then
    reason = 'host_limit'
  elseif is_given_up then
    reason = 'host_down'
  elseif host.group and is_spent(load_group(host.group)) then
    reason = 'domain_limit'
  end
  local has_more = reason and drop_own(name, host, reason)
  local best = best_level(host.levels)
  if has_more then
    move(name, host, 'waiting', NOW)
  elseif best and (is_given_up or not host.hold) and host_slots(host) > 0 then
    if host.at ~= 'ready' or host.best ~= best then move(name, host, 'ready', ready_score(host, best)) end
  elseif best and due then
    move(name, host, 'waiting', due)
  else
    move(name, host, nil)
  end
  host.best = best
end

-- Puts a group where it belongs, after its hosts, whose line is saved. One whose page budget is
-- spent is ready too: lease.lua then drops what its hosts have queued of their own.
local function place_group(name, group)
  local due = wake_time(group)
  local first = redis.call('ZRANGE', LINE .. name, 0, 0, 'WITHSCORES')
  local host = first[1] and load_host(first[1])
  local is_dropped = host and is_spent(group) and not is_moved_next(host)
  if is_dropped or host and not group.hold and group_slots(group, host) > 0 then
    move(name, group, 'ready', first[2])
  elseif first[1] and due then
    move(name, group, 'waiting', due)
  else
    move(name, group, nil)
  end
end

-- Puts a host into a group, of which it tells at the latest before its first request.
local function join_group(name, group)
  local host = load_host(name)
  if host.group == group then return end
  for _, kept in ipairs({'reserved', 'woken'}) do
    if host.group then add_to(load_group(host.group), kept, -(host[kept] or 0)) end
    add_to(load_group(group), kept, host[kept] or 0)
  end
  move(name, host, nil)
  host.group = group
end

local function place_all()
  for i = 1, #names do place(names[i], hosts[names[i]]) end
  save_lines()
  if not next(groups) then return end
  for name, group in pairs(groups) do place_group(name, group) end
  save_lines()
end

-- Puts back what was loaded and has been placed.
local function write_hosts()
  local changed, changed_groups, n = {}, {}, 0
  for i = 1, #names do
    local name = names[i]
    local packed = pack_host(hosts[name])
    if packed ~= stored[name] then
      changed[n + 1], changed[n + 2] = name, packed
      n = n + 2
    end
  end
  for name, group in pairs(groups) do
    changed_groups[#changed_groups + 1] = name
    changed_groups[#changed_groups + 1] = cmsgpack.pack(group)
  end
  call_in_pieces('HSET', HOSTS, changed)
  call_in_pieces('HSET', GROUPS, changed_groups)
end

local function save_hosts()
  place_all()
  write_hosts()
end

-- Connections that differ from the crawl's; 0 says nothing about them.
local function allow_connections(keeper, connections)
  if connections > 0 then keeper.per = connections ~= PER_HOST and connections or nil end
end

-- How long the host rests after a request of which nobody tells the end.
local function usual_pause_ms(host) return math.max(DELAY_MS, host.pause or 0) end

-- A request to the host has ended `ago_ms` ago; that connection now rests. Returns who keeps its
-- pace: itself, or the group it was leased of.
local function release_host(host, group, ago_ms, pause_ms)
  host.out = host.out - 1
  if group then load_group(group).out = load_group(group).out - 1 end
  local keeper = PACED and group and load_group(group) or host
  if pause_ms > 0 then table.insert(keeper.cooling, NOW - ago_ms + pause_ms) end
  return keeper
end

-- A URL is kept by its worker though its request has ended, or (-1) no longer is.
local function count_kept_of(name, group, by)
  add_to(load_host(name), 'kept', by)
  if group then add_to(load_group(group), 'kept', by) end
end

-- Leaves a host or group alone until then, if it is not for longer already. Who only knows that it
-- is to be left alone says nothing of the reason.
local function hold_until(unit, until_ms, why)
  if until_ms <= (unit.hold or 0) then return end
  unit.why = why ~= '' and why or unit.hold and unit.why or nil
  unit.hold = until_ms
end

-- What the request showed: `failed` is 2 if the server said that it is asked too much, which goes
-- for all that keep one pace with the host; 1 if it failed in another way that may pass, -1 if it
-- answered, 0 if neither is known. `hold_ms` is how long to leave it alone, `why` is for people. The
-- pause it was given is remembered if it is longer than the crawl's: see usual_pause_ms().
local function judge_host(host, keeper, failed, hold_ms, why, pause_ms)
  if failed ~= 0 then host.pause = pause_ms > DELAY_MS + CLOCK_MS and pause_ms or nil end
  if failed > 0 then host.failures = (host.failures or 0) + 1 end
  if failed < 0 then host.failures = nil end
  local held = failed > 1 and keeper or host
  if hold_ms > 0 then hold_until(held, NOW + hold_ms, why) end
end

-- An entry's first byte counts the attempts that have been made.
local function attempts_of(entry) return entry:byte(1) or 0 end
local function with_attempt(entry)
  return string.char(math.min(255, attempts_of(entry) + 1)) .. entry:sub(2)
end

-- The token tells apart equal requests that wait at the same time. A host whose robots.txt
-- is to be asked for again gets no other request before: its pages could only be put off.
local function delay(token, name, level, entry, due)
  if level == FIRST then
    local host = load_host(name)
    hold_until(host, due, 'robots_txt')
  end
  redis.call('ZADD', DELAYED, due, cmsgpack.pack(name, level, entry, token))
  reserve(name, level, 1)
  count('delayed', 1)
end

-- After delayed URLs that could not be read: seeds among them would keep their pages for ever.
local function mend_reserved()
  local all = redis.call('HKEYS', HOSTS)
  fetch_hosts(all)
  for _, name in ipairs(redis.call('HKEYS', GROUPS)) do
    load_group(name).reserved, load_group(name).woken = nil, nil
  end
  for _, kept in ipairs({'reserved', 'woken'}) do
    count(kept, -tonumber(redis.call('HGET', COUNTS, kept) or 0) - (moved[kept] or 0))
  end
  for _, name in ipairs(all) do
    load_host(name).reserved, load_host(name).woken = nil, nil
    for _, level in ipairs(load_host(name).levels) do
      if kept_as(level) then reserve(name, level, redis.call('LLEN', queue_of(name, level))) end
    end
  end
  for _, packed in ipairs(redis.call('ZRANGE', DELAYED, 0, -1)) do
    local name, level = read_url(packed)
    if name then reserve(name, level, 1) end
  end
end

-- After leases that could not be read: what they were is counted anew from those that can be.
local function mend_leases()
  local out, kept, copies, total = count_leases()
  local all = redis.call('HKEYS', HOSTS)
  fetch_hosts(all)
  for _, name in ipairs(all) do
    local host = load_host(name)
    host.out, host.kept, host.copies = out[name] or 0, kept[name], copies[name]
  end
  for _, name in ipairs(redis.call('HKEYS', GROUPS)) do
    local group = load_group(name)
    group.out, group.kept, group.copies = out[name] or 0, kept[name], copies[name]
  end
  write_off('leased', total)
end

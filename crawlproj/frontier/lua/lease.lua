#!lua flags=allow-oom
-- Hands the best URLs of hosts that are due to one worker. They leave their queue
-- only into the worker's leases; the host is checked out until each is settled.
--
-- ARGV  2 worker, 3 URLs wanted, 4 highest token that the worker has been given: after a failover
--         that forgot some, they are not given again, or an old verdict would meet a new lease
--       5 id of the last update of the seen filter that it has read
--       6 1 if no links are wanted: seeds are known to be on their way
--       7 1 if the crawl has other shards: a robots.txt that has moved here then needs no page of
--         the budget, for pages of theirs may wait for it
--       8 how many of the URLs wanted it would begin at once, if not all; the others it would have ahead, which it
--         may as long as no worker is without work: see _shortage.lua
--       9 ms for which a host that falls due is left to the worker that asked it last; 0 if not given
-- Reply {state, ms until a host or retry falls due (-1: none), size of the scope,
--        msgpack list of token, host, level, entry, failures of the host in a
--        row, pages of the host, its group or '', of one lease after the other, the server: see
--        _server.lua, id of the last update of the seen filter, what others have added since the one before,
--        holds so far, pages that the budget has for links: less than 0 if it has too few for the
--        seeds that wait, '' if there is no budget, changes of shared cookies so far, 1 if another
--        worker is without work and no host is to spare: what this one has ahead here it should
--        return}
--       state is the crawl's, or 'limit' when its page budget is used up
-- Error UNKNOWN: the worker counts as dead; it must renew first
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _server.lua
--include _shortage.lua
--include _last_worker.lua
--include _copies.lua
local DUE_AT_ONCE, UPDATES_AT_ONCE = 500, 100
local worker, want, begins = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[8] or ARGV[3])
if not redis.call('ZSCORE', WORKERS, worker) then
  return redis.error_reply('UNKNOWN the worker has been declared dead')
end
if STATE == 'running' and DEADLINE_MS > 0 and NOW >= DEADLINE_MS then
  STATE = 'stopping'
  redis.call('HSET', META, 'state', STATE)
end
if STATE ~= 'running' then return {STATE, -1, 0, cmsgpack.pack({}), server(), ARGV[5], {}, HOLDS, '', COOKIE_CHANGES, 0} end

for _, packed in ipairs(redis.call('ZRANGE', DELAYED, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)) do
  local name, level, entry = read_url(packed)
  if name then
    reserve(name, level, -1)
    enqueue(name, level, entry, true)
    count('delayed', -1)
  else
    count_corrupt()
  end
  redis.call('ZREM', DELAYED, packed)
end
if damaged then
  write_off('delayed', redis.call('ZCARD', DELAYED))
  mend_reserved()
end
local mark, left_ms = nil, tonumber(ARGV[9] or 0)
if left_ms > 0 then mark = mark_of(worker) end
if not mark then left_ms = 0 end
local due = redis.call('ZRANGE', WAITING, '-inf', NOW - left_ms, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)
fetch_hosts(due)
if left_ms > 0 then
  local new = redis.call('ZRANGE', WAITING, '(' .. NOW - left_ms, NOW, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)
  fetch_hosts(new)
  for _, name in ipairs(new) do
    if not is_anothers(stored[name], mark) then due[#due + 1] = name end
  end
end
for _, name in ipairs(due) do
  local unit = is_group(name) and load_group(name) or load_host(name)
  unit.at = 'waiting'
end
place_all()

local is_short = others_are_short()
if is_short then
  local spare_hosts = spare_hosts()
  want = math.max(begins, math.min(want, spare_hosts))
  is_short = spare_hosts < 1
end

-- Pages that the budget has, those for all but seeds, and those for links: one is kept for each seed
-- and each woken page that waits, wherever it does.
local pages, spare, links, moved_is_free = math.huge, math.huge, math.huge, ARGV[7] == '1'
if PAGES >= 0 then
  local taken = redis.call('HMGET', COUNTS, 'done', 'leased', 'reserved', 'revisits', 'woken')
  pages = PAGES - tonumber(taken[1] or 0) - tonumber(taken[2] or 0) - tonumber(taken[4] or 0)
  spare = pages - tonumber(taken[3] or 0) - (moved.reserved or 0)
  links = spare - math.max(0, tonumber(taken[5] or 0) + (moved.woken or 0))
  if pages <= 0 then STATE = 'limit' end
end
local revisits = spare
if ARGV[6] == '1' then revisits, links = 0, 0 end

local function pages_for(level)
  return math.min(pages, is_link(level) and links or level == REVISIT and revisits or pages)
end

local token = math.max(tonumber(redis.call('HGET', META, 'tokens') or 0), tonumber(ARGV[4]))
local leased, replied, held = 0, {}, {}

-- Hosts that something was taken of and that have to be placed anew, and the queues it came from.
local givers, queues = {}, {}

-- A queue that has become empty is a level less. Whether it has is asked of all at once: mostly
-- all of them are there still, or none.
local function place_givers()
  if #givers == 0 then return end
  local left = redis.call('EXISTS', unpack(queues))
  for i = 1, #givers do
    local name = givers[i]
    local host = hosts[name]
    if left == 0 or (left < #queues and redis.call('EXISTS', queues[i]) == 0) then table.remove(host.levels) end
    place(name, host)
  end
  givers, queues = {}, {}
end

-- Leases the first of the host's best level, as many as are wanted and it may give, `most` at most.
-- True if the host keeps a place in line; it may be another.
local function lease_from(name, most)
  local host = load_host(name)
  host.at = 'ready'
  if #host.cooling > 0 then rest_from_now(host) end  -- one that stands in line is not woken for it
  local level, free = host.levels[#host.levels], host_slots(host)
  local is_free = moved_is_free and level and level >= MOVED and best_level(host.levels) == MOVED
  local slots = math.min(want - leased, free, most)
  if level and not is_free then slots = math.min(slots, pages_for(level)) end
  if not level or slots < 1 then
    place(name, host)
    return host.at == 'ready'
  end
  local queue, group = queue_of(name, level), host.group
  local entries = redis.call('LPOP', queue, slots) or {}
  local taken = #entries
  for i = 1, taken do
    local entry, n, m = entries[i], #replied, #held
    token = token + 1
    held[m + 1] = token
    held[m + 2] = group and cmsgpack.pack(name, level, entry, false, group) or pack_url(name, level, entry)
    replied[n + 1], replied[n + 2], replied[n + 3], replied[n + 4] = token, name, level, entry
    replied[n + 5], replied[n + 6], replied[n + 7] = host.failures or 0, host.pages, group or ''
    if NOVELTY then forget_found(name, entry) end
  end
  host.out = host.out + taken
  leased = leased + taken
  pages = pages - taken
  if is_link(level) then links = links - taken end
  if is_link(level) or level == REVISIT then spare, revisits = spare - taken, revisits - taken end
  reserve(name, level, -taken)
  if group then
    load_group(group).out = load_group(group).out + taken
    host.best = nil  -- the others of the group are next
  end
  givers[#givers + 1], queues[#queues + 1] = name, queue
  if not group and free <= taken then return false end
  place_givers()
  return host.at == 'ready'
end

-- One URL of the host whose turn it is in the group. True if the group keeps a place in line.
local function lease_from_group(name)
  local group, line = load_group(name), LINE .. name
  group.at = 'ready'
  if #group.cooling > 0 then rest_from_now(group) end
  local first = redis.call('ZRANGE', line, 0, 0)[1]
  if first and load_host(first).group == name then
    lease_from(first, math.min(1, group_slots(group, load_host(first))))
  elseif first then
    redis.call('ZREM', line, first)
  end
  save_lines()
  place_group(name, group)
  return group.at == 'ready'
end

-- Whether all that is left in line are pages, or links, and none of them may be leased.
local function is_withheld(name)
  if links > 0 and pages > 0 then return false end
  if is_group(name) then
    local first = redis.call('ZRANGE', LINE .. name, 0, 0)[1]
    return first and not is_spent(load_group(name)) and is_withheld(first)
  end
  local best = best_level(load_host(name).levels)
  if pages <= 0 and not (moved_is_free and best == MOVED) then return best end
  return best and best < MOVED and pages_for(best) <= 0
end

-- Hosts whose domain has no pages left give none, so there may be more tries than URLs. A host or
-- group that stays in line may have a new place in it: the line is then read anew.
local tries = want + DUE_AT_ONCE
while leased < want and tries > 0 do
  save_lines()
  local line = redis.call('ZRANGE', READY, 0, math.min(want - leased, PIECE) - 1)
  if #line == 0 then break end
  fetch_hosts(line)
  local withheld = false
  for i = 1, #line do
    local name = line[i]
    withheld = is_withheld(name)
    if withheld then break end
    tries = tries - 1
    local lease = is_group(name) and lease_from_group or lease_from
    if lease(name, math.huge) or leased == want then break end
  end
  place_givers()
  if withheld then break end
end
if twins then
  twins.note(worker, held)
  if leased < begins then token = twins.make(worker, begins - leased, token, held, replied) end
end
call_in_pieces('HSET', LEASED .. worker, held)
count('queued', -leased)
count('leased', leased)
redis.call('HSET', META, 'tokens', token)
save_lines()
write_hosts()
save_counts()
if leased < begins then note_shortage(begins - leased) end

local next_ms = tries > 0 and -1 or 0
for _, key in ipairs({WAITING, DELAYED}) do
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  local in_ms = first[2] and first[2] - NOW
  if in_ms and in_ms <= 0 and key == WAITING then in_ms = in_ms + left_ms end
  if in_ms and (next_ms < 0 or in_ms < next_ms) then next_ms = math.max(0, in_ms) end
end

local last_id, updates = ARGV[5], {}
for _, one in ipairs(redis.call('XRANGE', UPDATES, '(' .. last_id, '+', 'COUNT', UPDATES_AT_ONCE)) do
  local sender, update = unpack(one[2])
  last_id = one[1]
  if sender ~= worker then updates[#updates + 1] = update end
end
local pages_for_links = PAGES >= 0 and spare or ''
return {STATE, next_ms, redis.call('ZCARD', SCOPE), cmsgpack.pack(replied), server(), last_id, updates, HOLDS,
        pages_for_links, COOKIE_CHANGES, is_short and 1 or 0}

#!lua flags=allow-oom
-- Wakes URLs that are due to be revisited, as many as the budget of fetches has room for: they go from
-- what they are counted as to the queue of their host.
--
-- The budget is earned with time. What else is leased (new pages, retries, robots.txt) is paid for
-- first, and has at most LARGEST_SHARE of it; what it needed beyond that is forgotten after FORGET_S.
-- What is not used is saved for SAVED_S.
--
-- A host that has new pages is given a URL to revisit every other time that it may be asked, and then
-- that goes first; one that has none, each time. URLs of it that are due at once get such turns one
-- after the other: they rest until then. A turn that was not taken is good for LATE_MS: workers ask a
-- few times a second. Hosts that share a pace share these turns.
--
-- ARGV  2 URLs to wake at most, 3 ms from one census to the next
-- Reply {URLs that were woken, now in ms by the crawl's clock, what the last census found or '',
--        1 if the caller is to take the next census, percent of what can be saved that lies idle, since
--        nothing else can be woken: 100 where the shard has nothing of the budget}
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _resting.lua
local LARGEST_SHARE, FORGET_S, SAVED_S, LOOKED_AT, LATE_MS = 0.9, 10, 5, 100, 1000
local kept = redis.call('HMGET', META, 'refresh', 'revisits_left', 'revisits_at_ms', 'woken', 'paid_for',
                        'tokens', 'census', 'census_at_ms')
if STATE ~= 'running' or not kept[1] then return {0, NOW, kept[7] or '', 0, 0} end
local rate = tonumber(kept[1]) or 0  -- 0 where nothing rested at the last census

local woken, leased = tonumber(kept[4] or 0), tonumber(kept[6] or 0)
local earned = rate * math.max(0, NOW - tonumber(kept[3] or NOW)) / 1000
local paid_for = math.max(tonumber(kept[5] or 0), leased - woken - rate * FORGET_S)
local paid = math.max(0, math.min(leased - woken - paid_for, LARGEST_SHARE * earned))
local most = math.max(1, rate * SAVED_S)
local left = math.min(tonumber(kept[2] or math.huge) + earned - paid, most)

local wanted = math.min(tonumber(ARGV[2]), math.floor(left))
if PAGES >= 0 then
  local left_of_pages = PAGES
  for _, used in ipairs(redis.call('HMGET', COUNTS, 'done', 'leased', 'revisits', 'reserved', 'woken')) do
    left_of_pages = left_of_pages - tonumber(used or 0)
  end
  wanted = math.min(wanted, left_of_pages)
end

-- Who keeps the pace of a host, and with it the turns.
local function keeper_of(host) return host.group and PACED and load_group(host.group) or host end

local function has_new(host) return #host.levels > 1 or #host.levels == 1 and host.levels[1] ~= REVISIT end

-- The same of any host of a group: who has pages to revisit only stands before all others in its line.
local function line_has_new(group)
  local last = redis.call('ZRANGE', LINE .. group, -1, -1)[1]
  return last and has_new(load_host(last))
end

-- How long a host has, after a URL of it was woken, before the next is.
local function turn_ms(host, keeper)
  local is_shared = has_new(host) or keeper ~= host and line_has_new(host.group)
  return math.ceil((is_shared and 2 or 1) * usual_pause_ms(host) / (keeper.per or PER_HOST))
end

-- A URL that is due waits for its host until then. Half a millisecond tells it from one that is not
-- due before: see Resting.waits in resting.py.
local function wait_until(number, at_ms) redis.call('ZADD', DUE, at_ms + 0.5, number) end

-- Whether it is a turn of the host's; if not, the URL is due again at its next one that is not taken, or
-- when the host is no longer held: queued before, it would have used up budget that others can use.
local function has_turn(host, number)
  local keeper = keeper_of(host)
  local held_until = math.max(host.hold or 0, keeper.hold or 0)
  if NOW < held_until then return wait_until(number, held_until) end
  local lasts_ms = turn_ms(host, keeper)
  if NOW >= (keeper.revisit or 0) then
    keeper.revisit = lasts_ms > 0 and math.max(keeper.revisit or NOW, NOW - LATE_MS) + lasts_ms or nil
    return true
  end
  local turn = math.max(keeper.revisit, keeper.turns or 0)
  keeper.turns = turn + lasts_ms
  wait_until(number, turn)
end

local function wake(name, entry, counted_as)
  local host = load_host(name)
  if counted_as == 'done' then
    host.pages = math.max(0, host.pages - 1)
    if host.group then load_group(host.group).pages = math.max(0, load_group(host.group).pages - 1) end
    count('revisits', 1)
  end
  count(counted_as, -1)
  enqueue(name, REVISIT, entry, false)
end

local function leave_rest(number)
  count('resting', -redis.call('HDEL', RESTING, number))
  redis.call('ZREM', DUE, number)
end

local due = wanted > 0 and redis.call('ZRANGE', DUE, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, wanted + LOOKED_AT) or {}
local urls = 0
for i, packed in ipairs(read_fields(RESTING, due)) do
  if urls == wanted then break end
  local ok, name, entry, counted_as = pcall(cmsgpack.unpack, packed or nil)
  if not (ok and type(name) == 'string' and type(entry) == 'string' and type(counted_as) == 'string') then
    count('corrupt', 1)
    leave_rest(due[i])  -- and stay what it is counted as
  elseif has_turn(load_host(name), due[i]) then
    wake(name, entry, counted_as)
    leave_rest(due[i])
    urls = urls + 1
  end
end
save_hosts()
save_counts()

local is_turn = NOW >= tonumber(kept[8] or 0)
redis.call('HSET', META, 'revisits_left', left - urls, 'revisits_at_ms', NOW, 'woken', woken + urls,
           'paid_for', paid_for + paid)
if is_turn then redis.call('HSET', META, 'census_at_ms', NOW + tonumber(ARGV[3])) end
local idle = rate <= 0 and 1 or urls < wanted and (left - urls) / most or 0
return {urls, NOW, kept[7] or '', is_turn and 1 or 0, math.floor(idle * 100)}

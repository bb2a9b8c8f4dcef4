#!lua flags=allow-oom
-- Gives requests their turn at hosts that several crawls ask, so that together they ask a host no
-- faster than one of them would. Of no crawl: the keys are shared by all on this Redis. A turn that
-- is taken again is renewed.
--
-- KEYS  one a request, all of one slot: hash of a host, or of a group that keeps one pace. A field a
--       turn: 'ms when it ends or has ended, ms to rest from then on'; one that is under way ends in
--       the future, and rests 0. `hold`: ms until which it is to be left alone. `next`: 'ms,
--       connections, crawl' that was refused first, when it will ask again, and how many requests it
--       wants there at most, its own among them. Expires.
-- ARGV  1 crawl, 2 ms after which a turn has ended of which nobody tells the end,
--       then for each key: the turn's name, the crawl's pause in ms, connections to the host
-- Reply list of ms to wait, 0 for who has its turn
local time = redis.call('TIME')
local NOW = time[1] * 1000 + math.floor(time[2] / 1000)
local CRAWL, LASTS_MS = ARGV[1], tonumber(ARGV[2])

-- How long what is known of a host is kept: the longest pause that a crawl can rely on.
local KEPT_MS = 120000
-- So often a crawl asks for a host whose request is under way, at least; so late may who is next be.
local SHORTEST_MS, LATE_MS = 50, 500

-- Turns that count, when the first of them is over, and the names of the others. A host rests for the
-- longer pause of who was there and who wants to be. A turn that has ended in the future was ended
-- before the server's clock was set back: its rest begins now.
local function look(key, pause_ms)
  local used, free_ms, over, hold_ms, next_ms = 0, math.huge, {}, 0, 0
  local next_connections, next_crawl = nil, CRAWL
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    local end_ms, rest = value:match('^(%d+) ?(.*)$')
    if name == 'hold' then
      hold_ms = tonumber(end_ms) or 0
    elseif name == 'next' then
      next_ms = tonumber(end_ms) or 0
      next_connections, next_crawl = (rest or ''):match('^(%d+) (.*)$')
    else
      local rest_ms = tonumber(rest) or 0
      end_ms = tonumber(end_ms) or 0
      if rest_ms > 0 and end_ms > NOW then
        end_ms = NOW
        redis.call('HSET', key, name, ('%d %d'):format(end_ms, rest_ms))
      end
      local due_ms = end_ms + math.max(pause_ms, rest_ms)
      if due_ms > NOW then
        used, free_ms = used + 1, math.min(free_ms, due_ms)
      else
        over[#over + 1] = name
      end
    end
  end
  local other_is_next = next_crawl and next_crawl ~= CRAWL and next_ms + LATE_MS > NOW
  return used, free_ms, over, hold_ms, other_is_next and tonumber(next_connections), next_ms
end

local function give(key, turn, over)
  if #over > 0 then redis.call('HDEL', key, unpack(over)) end
  redis.call('HSET', key, turn, ('%d 0'):format(NOW + LASTS_MS))
  local kept_ms = LASTS_MS + KEPT_MS
  if redis.call('PTTL', key) < kept_ms then redis.call('PEXPIRE', key, kept_ms) end
  return 0
end

local function take(key, turn, pause_ms, connections)
  if redis.call('HEXISTS', key, turn) == 1 then return give(key, turn, {}) end
  local used, free_ms, over, hold_ms, next_connections, next_ms = look(key, pause_ms)
  if hold_ms > NOW then return hold_ms - NOW end
  if next_connections then
    -- Who is next needs one of these, and that no more than its own limit are used.
    if used + 1 < math.min(connections, next_connections) then return give(key, turn, over) end
    return math.max(SHORTEST_MS, next_ms - NOW)
  end
  if used < connections then
    over[#over + 1] = 'next'
    return give(key, turn, over)
  end
  local wait_ms = math.min(free_ms - NOW, math.max(pause_ms, SHORTEST_MS))
  redis.call('HSET', key, 'next', ('%d %d %s'):format(NOW + wait_ms, connections, CRAWL))
  return wait_ms
end

local waits = {}
for i = 1, #KEYS do
  local at = 3 * i
  waits[i] = take(KEYS[i], ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]))
end
return waits

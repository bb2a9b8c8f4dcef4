-- Included first by every operation on an open crawl: names the keys, reads the
-- clock and the crawl's own limits, and refuses to touch a crawl that is not the
-- caller's. Reply when it refuses: an error that begins with WIPED, EPOCH or CLOCK.
--
-- KEYS  as in _keys.lua
--
-- ARGV[1] is the epoch in which the caller works and, behind a space each, what it knows of the time:
-- asked_ms, if a call of its was answered, and step_ms and before_ms, if it has found that the clock
-- has stepped (_clock.lua); the rest is the operation's.
--include _keys.lua
--include _clock.lua

local CRAWL = redis.call('HMGET', META, 'epoch', 'state', 'per_host', 'pages_per_host',
                         'pages', 'deadline_ms', 'delay_ms', 'max_attempts', 'skew_ms',
                         'give_up', 'novelty', 'turns', 'group', 'pages_per_domain', 'holds',
                         'clock_ms', 'cookies', 'shortage', 'outcomes', 'speculate')
local NOW
do  -- a block of its own, for a script may have 200 local variables at a time
  local epoch, asked_ms, step_ms, before_ms = ARGV[1]:match('^(%S*) ?(%d*) ?(%d*) ?(%d*)')
  if not CRAWL[1] then return redis.error_reply('WIPED no crawl is open here') end
  if CRAWL[1] ~= epoch then return redis.error_reply('EPOCH another crawl has begun') end
  local doubt
  NOW, doubt = read_clock(META, CRAWL[9], CRAWL[16],
                          {asked_ms = tonumber(asked_ms), step_ms = step_ms, before_ms = before_ms})
  if not NOW then return redis.error_reply(doubt) end
end

local STATE = CRAWL[2]
local PER_HOST, PAGES_PER_HOST = tonumber(CRAWL[3]), tonumber(CRAWL[4])
local PAGES, DEADLINE_MS, DELAY_MS = tonumber(CRAWL[5]), tonumber(CRAWL[6]), tonumber(CRAWL[7])
local MAX_ATTEMPTS, GIVE_UP = tonumber(CRAWL[8]), tonumber(CRAWL[10] or 0)
-- Whether the hosts of a group keep one pace; they share a page budget in any case.
local PACED, PAGES_PER_DOMAIN = CRAWL[13] ~= false, tonumber(CRAWL[14] or 0)

-- How often a host was found to be left alone of which more was leased: see settle.lua.
local HOLDS = tonumber(CRAWL[15] or 0) or 0

-- How often workers have been given cookies that all of them share: see cookies.lua.
local COOKIE_CHANGES = tonumber(CRAWL[17] or 0) or 0

-- Workers that had nothing to do: see _shortage.lua.
local SHORTAGE = CRAWL[18]

-- Weights of a strategy by which links rise that are found again: see Novelty and Opic in
-- discover/ranking.py. The former ranks hosts too; of the latter `steps` are levels for twice the cash.
local NOVELTY
if CRAWL[11] and CRAWL[11]:sub(1, 5) == 'opic ' then
  NOVELTY = {start = 0, per_page = 0, per_mention = 0, steps = tonumber(CRAWL[11]:sub(6))}
elseif CRAWL[11] then
  local start, per_page, per_link, per_mention = CRAWL[11]:match('(%S+) (%S+) (%S+) (%S+)')
  NOVELTY = {start = tonumber(start), per_page = tonumber(per_page),
             per_link = tonumber(per_link), per_mention = tonumber(per_mention)}
end

-- Many members, or fields and their values, with few commands: a command costs more than what
-- it writes. Pieces are even, so that pairs stay together, and fit Lua's stack.
local PIECE = 2000
local function call_in_pieces(command, key, values)
  for first = 1, #values, PIECE do
    redis.call(command, key, unpack(values, first, math.min(first + PIECE - 1, #values)))
  end
end

-- The values of many fields of a hash, false where there is none.
local function read_fields(key, fields)
  local values = {}
  for first = 1, #fields, PIECE do
    local last = math.min(first + PIECE - 1, #fields)
    local piece = redis.call('HMGET', key, unpack(fields, first, last))
    if #fields <= PIECE then return piece end
    for i = 1, #piece do values[first + i - 1] = piece[i] end
  end
  return values
end

local moved = {}
local function count(name, by) moved[name] = (moved[name] or 0) + by end

-- More left the queues than was ever counted in: someone else has put it there. It is a URL
-- like any other from now on, or the crawl could not end.
local function admit(surplus)
  for _, name in ipairs({'queued', 'discovered', 'corrupt'}) do
    redis.call('HINCRBY', COUNTS, name, surplus)
  end
end

local function save_counts()
  for name, by in pairs(moved) do
    local total = by ~= 0 and redis.call('HINCRBY', COUNTS, name, by) or 0
    if name == 'queued' and total < 0 then admit(-total) end
  end
end

#!lua flags=allow-oom
-- Opens the crawl on one shard: begins a new one, joins a running one, or resumes one that was
-- interrupted or stopped. A crawl begins with its first seed: until then, and after it has finished,
-- a worker that brings none waits, and what is there stays as it is. Works when Redis is out of
-- memory, too: whoever joins then can settle, and so make room.
--
-- KEYS  as in _keys.lua
-- ARGV  1 epoch to begin with, if a new crawl begins (or '' on shards other than
--         the first, then 2 is obeyed)
--       2 epoch that must be open here ('' on the first shard)
--       3 run: an id shared by workers that were started together
--       4 msgpack map of META fields for a new crawl (limits, plan, …)
--       5 ms that a new crawl may last, or one that is resumed after it was stopped or its deadline
--         has passed; 0 for no deadline
--       6 1 if the caller brings a seed or has found one, else 0
--       7 epoch in which it has found one: in a later one, that seed has been taken in already; ''
--         if it brings one itself, which counts in any
--       8 dismissals (set_state.lua) when the caller began to wait here; '' if it has just come
-- Reply {mode, epoch, state, plan}; mode is one of new, joined, resumed, finished, waiting, and
--       leftovers: clear.lua must first clear away the crawl of that epoch; what it is to look
--       through stands in the place of the plan. Who has been dismissed is told to wait, and
--       changes nothing
--include _keys.lua
--include _clock.lua
--include _history.lua
local found = redis.call('HMGET', META, 'epoch', 'state', 'plan', 'runs', 'skew_ms',
                         'deadline_ms', 'clock_ms', 'waits', 'dismissals')
local epoch, state, plan, runs = found[1], found[2], found[3], found[4] or ''
local waits = found[8] == '1'  -- nobody has brought a seed yet: the plan is nobody's
local dismissals = tonumber(found[9] or 0)  -- of all crawls of this name: who waits outlives one
local MOST_LAYERS = 64  -- as in readings.py
local run, lasts_ms = ' ' .. ARGV[3]:gsub('%s', '_'), tonumber(ARGV[5])
local is_of_run = (runs .. ' '):find(run .. ' ', 1, true) ~= nil
local MOST_RUNS_BYTES = 20000  -- the oldest of more than a thousand runs are forgotten

local function deadline_from(now) return lasts_ms > 0 and now + lasts_ms or 0 end

-- Where clear.lua is to begin, if keys are left that are named after hosts, groups, patterns or
-- workers, or that say what became of URLs. A crawl that has ended can only have some of patterns and
-- of those: nothing is queued or leased, but for leases that another worker's copy has outrun.
local function leftovers()
  local outcomes = redis.call('HEXISTS', META, 'outcomes') == 1 and 5 or nil
  local left = redis.call('HMGET', COUNTS, 'queued', 'delayed', 'leased')
  local is_empty = (tonumber(left[1]) or 0) + (tonumber(left[2]) or 0) + (tonumber(left[3]) or 0) == 0
  if (state == 'finished' or waits) and is_empty then
    if redis.call('EXISTS', PATTERNS) == 1 then return 3 end
    return redis.call('HEXISTS', META, 'speculate') == 1 and redis.call('EXISTS', WORKERS) == 1 and 4 or outcomes
  end
  return redis.call('EXISTS', HOSTS, WORKERS, PATTERNS, GROUPS) > 0 and 1 or outcomes
end

local function begin(new_epoch)
  local first = leftovers()
  if first then return {'leftovers', epoch or '', state or '', tostring(first)} end
  for layer = 0, MOST_LAYERS - 1 do redis.call('UNLINK', SEEN .. layer) end
  redis.call('UNLINK', META, COUNTS, HOSTS, READY, WAITING, DELAYED, WORKERS, ABOUT, DEAD, SEEDS, AUDIT, SCOPE,
             LAYERS, FOUND, PATTERNS, GROUPS, UPDATES, COOKIES, OLD_SCOPE, RESTING, DUE, NEAR, LEASED_AT,
             DURATIONS, REPLIES)
  forget_history()
  for field, value in pairs(cmsgpack.unpack(ARGV[4])) do redis.call('HSET', META, field, value) end
  local now = read_clock(META)
  redis.call('HSET', META, 'epoch', new_epoch, 'state', 'running', 'started_ms', now,
             'deadline_ms', deadline_from(now), 'runs', run, 'dismissals', dismissals)
  redis.call('HSET', LAYERS, 'open', 1, 'items:0', 0)
  return {'new', new_epoch, 'running', redis.call('HGET', META, 'plan')}
end

local function wait()
  local now = read_clock(META, found[5], found[7])
  local nobody = redis.call('ZCOUNT', WORKERS, now, '+inf') == 0
  if waits and (state == 'stopped' or (state == 'stopping' and nobody)) then
    state = 'running'
    redis.call('HSET', META, 'state', state)
  end
  return {'waiting', epoch, state, plan}
end

local function begin_with_seed()
  local begun = begin(ARGV[1])
  if begun[1] == 'new' and waits and state == 'paused' then
    redis.call('HSET', META, 'state', state)
    begun[3] = state
  end
  return begun
end

if ARGV[8] ~= '' and dismissals > tonumber(ARGV[8]) then return {'waiting', epoch, state, plan} end

if ARGV[2] ~= '' then
  if epoch ~= ARGV[2] then return begin(ARGV[2]) end
elseif not epoch then
  local begun = begin(ARGV[1])
  if begun[1] == 'new' and ARGV[6] == '0' then
    redis.call('HSET', META, 'waits', 1, 'runs', '')
    begun[1] = 'waiting'
  end
  return begun
elseif state == 'finished' and is_of_run then
  return {'finished', epoch, state, plan}
elseif state == 'finished' or waits then
  local is_due = ARGV[6] == '1' and (ARGV[7] == '' or ARGV[7] == epoch)
  return is_due and begin_with_seed() or wait()
end

local now = read_clock(META, found[5], found[7])
local alive = redis.call('ZCOUNT', WORKERS, now, '+inf') > 0
if not is_of_run then
  redis.call('HSET', META, 'runs', (runs .. run):sub(-MOST_RUNS_BYTES))
  -- Who goes on with a crawl that nobody is at says how long, at the latest when its time is over.
  -- Who replaces a worker of the same run does not.
  local ended_ms = tonumber(found[6] or 0)
  if not alive and (lasts_ms > 0 or ended_ms > 0 and ended_ms <= now) then
    redis.call('HSET', META, 'deadline_ms', deadline_from(now))
  end
end
if state == 'stopped' or (state == 'stopping' and not alive) then
  redis.call('HSET', META, 'state', 'running', 'deadline_ms', deadline_from(now), 'ran_until_ms', now)
  return {'resumed', epoch, 'running', plan}
end
local begun = tonumber(redis.call('HGET', COUNTS, 'discovered') or 0) > 0
return {(alive or not begun) and 'joined' or 'resumed', epoch, state, plan}

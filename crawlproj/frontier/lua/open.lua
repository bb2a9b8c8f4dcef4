#!lua flags=allow-oom
-- Opens the crawl on one shard: begins a new one, joins a running one, or resumes
-- one that was interrupted or stopped. Also when Redis is out of memory: whoever joins
-- then can settle, and so make room.
--
-- KEYS  as in _crawl.lua
-- ARGV  1 epoch to begin with, if a new crawl begins (or '' on shards other than
--         the first, then 2 is obeyed)
--       2 epoch that must be open here ('' on the first shard)
--       3 run: an id shared by workers that were started together
--       4 msgpack map of META fields for a new crawl (limits, plan, …)
--       5 minutes*60000 for a new crawl, or for one that is resumed after it was stopped or its
--         deadline has passed; 0 for no deadline
-- Reply {mode, epoch, state, plan}; mode is one of new, joined, resumed, finished
local META, COUNTS, WORKERS = KEYS[1], KEYS[2], KEYS[7]
local found = redis.call('HMGET', META, 'epoch', 'state', 'plan', 'runs', 'skew_ms',
                         'deadline_ms')
local epoch, state, plan, runs = found[1], found[2], found[3], found[4] or ''
local run = ' ' .. ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(found[5] or 0)
local deadline_ms = tonumber(ARGV[5]) > 0 and now + tonumber(ARGV[5]) or 0

-- What an earlier crawl has left, where another shard was wiped and this one was not.
local function unlink_leftovers()
  local hosts = redis.call('HGETALL', KEYS[3])
  for i = 1, #hosts, 2 do
    local ok, levels = pcall(cmsgpack.unpack, hosts[i + 1])
    if type(levels) == 'number' then levels = {levels} end
    for _, level in ipairs(ok and type(levels) == 'table' and levels or {}) do
      redis.call('UNLINK', KEYS[15] .. level .. ':' .. hosts[i])
    end
  end
  for _, group in ipairs(redis.call('HKEYS', KEYS[20])) do redis.call('UNLINK', KEYS[21] .. group) end
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    redis.call('UNLINK', KEYS[16] .. worker)
  end
  for _, pattern in ipairs(redis.call('HKEYS', KEYS[18])) do
    redis.call('UNLINK', KEYS[19] .. pattern)
  end
end

local function begin(new_epoch)
  unlink_leftovers()
  for i = 2, 13 do redis.call('UNLINK', KEYS[i]) end
  for layer = 0, 63 do redis.call('UNLINK', KEYS[14] .. layer) end
  redis.call('UNLINK', META, KEYS[17], KEYS[18], KEYS[20], KEYS[22])
  for field, value in pairs(cmsgpack.unpack(ARGV[4])) do redis.call('HSET', META, field, value) end
  redis.call('HSET', META, 'epoch', new_epoch, 'state', 'running', 'started_ms', now,
             'deadline_ms', deadline_ms, 'runs', run)
  redis.call('HSET', KEYS[13], 'open', 1, 'items:0', 0)
  return {'new', new_epoch, 'running', redis.call('HGET', META, 'plan')}
end

if ARGV[2] ~= '' then
  if epoch ~= ARGV[2] then return begin(ARGV[2]) end
elseif not epoch then
  return begin(ARGV[1])
elseif state == 'finished' then
  if not runs:find(run, 1, true) then return begin(ARGV[1]) end
  return {'finished', epoch, state, plan}
end

local alive = redis.call('ZCOUNT', WORKERS, now, '+inf') > 0
if not runs:find(run, 1, true) then
  redis.call('HSET', META, 'runs', runs .. run)
  -- Who goes on with a crawl that nobody is at says how long, at the latest when its time is over.
  -- Who replaces a worker of the same run does not.
  local ended_ms = tonumber(found[6] or 0)
  if not alive and (deadline_ms > 0 or ended_ms > 0 and ended_ms <= now) then
    redis.call('HSET', META, 'deadline_ms', deadline_ms)
  end
end
if state == 'stopped' or (state == 'stopping' and not alive) then
  redis.call('HSET', META, 'state', 'running', 'deadline_ms', deadline_ms, 'ran_until_ms', now)
  return {'resumed', epoch, 'running', plan}
end
local begun = tonumber(redis.call('HGET', COUNTS, 'discovered') or 0) > 0
return {(alive or not begun) and 'joined' or 'resumed', epoch, state, plan}

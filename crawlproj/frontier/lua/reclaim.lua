#!lua flags=allow-oom
-- Takes back what dead workers held, and queues it again. A URL that has been lost as often as
-- allowed goes to the dead letters: it may be what kills them. From the second loss on, the URLs
-- that were lost together come back one by one, so that such a URL does not take the same
-- neighbours with it each time. A URL that another worker holds too (_copies.lua) stays with that one.
--
-- What went to the dead letters has to be reported by the caller, which may not hear of it, or die before
-- it has: it is told again, or the one who buries the caller is, until the caller says that it is reported.
-- REPLIES keeps what is not: "lost <worker>" -> msgpack of how many that worker was told of so far, and the
-- last of them.
--
-- ARGV  2 workers to bury at most, 3 the caller, 4 how many of those that it was told of are reported
-- Reply {workers buried, URLs queued again, msgpack list of {host, level, entry} that went to the dead
--        letters and are not reported, how many the caller has been told of so far, these included}
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _dead_letters.lua
--include _copies.lua
--include _replies.lua
local APART_MS = 1000
local lost = redis.call('ZRANGE', WORKERS, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, tonumber(ARGV[2]))
local queued, dead = 0, 0

-- Those that a worker was told of, without the first so many, and how many there were in all.
local function unreported(worker, reported)
  local ok, told, last = pcall(cmsgpack.unpack, redis.call('HGET', REPLIES, 'lost ' .. worker) or nil)
  if not (ok and type(told) == 'number' and type(last) == 'table') then return {}, reported end
  local left = {}
  for i, one in ipairs(last) do
    local is_ours = type(one) == 'table' and read_url(cmsgpack.pack(unpack(one)))
    if is_ours and told - #last + i > reported then left[#left + 1] = one end
  end
  return left, math.max(told, reported)
end

local to_report, told = unreported(ARGV[3], tonumber(ARGV[4]))
local function report(one)
  to_report[#to_report + 1] = one
  told = told + 1
end

local function take_back(token, packed, nth)
  local name, level, entry, kept, group, twin_text = read_lease(packed)
  if not name then return count_corrupt() end
  local again = with_attempt(entry)
  if kept then
    count_kept_of(name, group, -1)
  else
    local host = load_host(name)
    release_host(host, group, 0, usual_pause_ms(host))
  end
  if twins and twin_text and twins.take_over(token, twin_text) then return twins.count_of(name, group, -1) end
  count('leased', -1)
  if attempts_of(again) >= MAX_ATTEMPTS then
    add_dead_letter(name, level, again, 'worker_lost')
    report({name, level, again})
    dead = dead + 1
  elseif attempts_of(again) == 1 then
    enqueue(name, level, again, true)
    queued = queued + 1
  else
    delay(token, name, level, again, NOW + nth * APART_MS)
    queued = queued + 1
  end
end

for _, worker in ipairs(lost) do
  local held = redis.call('HGETALL', LEASED .. worker)
  for i = 1, #held, 2 do take_back(held[i], held[i + 1], (i - 1) / 2) end
  if twins then twins.forget(worker, redis.call('HKEYS', LEASED .. worker)) end
  for _, one in ipairs(worker ~= ARGV[3] and unreported(worker, 0) or {}) do report(one) end
  redis.call('HDEL', REPLIES, 'lost ' .. worker)
  settlements.forget(worker)
  redis.call('DEL', LEASED .. worker)
  redis.call('ZREM', WORKERS, worker)
  redis.call('HDEL', ABOUT, worker)
  redis.call('HDEL', META, 'push:' .. worker, 'drain:' .. worker)
end
count('reclaimed', queued + dead)
if damaged then mend_leases() end
save_hosts()
save_counts()
local field = 'lost ' .. ARGV[3]
if #to_report > 0 then
  redis.call('HSET', REPLIES, field, cmsgpack.pack(told, to_report))
else
  redis.call('HDEL', REPLIES, field)
end
return {#lost, queued, cmsgpack.pack(to_report), told}

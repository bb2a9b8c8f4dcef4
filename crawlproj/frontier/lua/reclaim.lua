#!lua flags=allow-oom
-- Takes back what dead workers held, and queues it again. A URL that has been lost as often as
-- allowed goes to the dead letters: it may be what kills them. From the second loss on, the URLs
-- that were lost together come back one by one, so that such a URL does not take the same
-- neighbours with it each time.
--
-- ARGV  2 workers to bury at most
-- Reply {workers buried, URLs queued again, msgpack list of {host, level, entry}
--        that went to the dead letters}
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _dead_letters.lua
local APART_MS = 1000
local lost = redis.call('ZRANGE', WORKERS, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, tonumber(ARGV[2]))
local queued, dead = 0, {}

local function take_back(token, packed, nth)
  local name, level, entry, kept, group = read_lease(packed)
  if not name then return count_corrupt() end
  local again = with_attempt(entry)
  if kept then
    count_kept_of(name, group, -1)
  else
    local host = load_host(name)
    release_host(host, group, 0, usual_pause_ms(host))
  end
  count('leased', -1)
  if attempts_of(again) >= MAX_ATTEMPTS then
    add_dead_letter(name, level, again, 'worker_lost')
    dead[#dead + 1] = {name, level, again}
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
  redis.call('DEL', LEASED .. worker)
  redis.call('ZREM', WORKERS, worker)
  redis.call('HDEL', ABOUT, worker)
  redis.call('HDEL', META, 'push:' .. worker, 'drain:' .. worker)
end
count('reclaimed', queued + #dead)
if damaged then mend_leases() end
save_hosts()
save_counts()
return {#lost, queued, cmsgpack.pack(dead)}

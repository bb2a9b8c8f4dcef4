#!lua flags=allow-oom
-- Hands the best URLs of hosts that are due to one worker. They leave their queue
-- only into the worker's leases; the host is checked out until each is settled.
--
-- ARGV  2 worker, 3 URLs wanted, 4 highest token that the worker has been given: after a failover
--         that forgot some, they are not given again, or an old verdict would meet a new lease
-- Reply {state, ms until a host or retry falls due (-1: none), size of the scope,
--        msgpack list of token, host, level, entry, failures of the host in a
--        row, pages of the host, of one lease after the other, the server: see _server.lua}
--       state is the crawl's, or 'limit' when its page budget is used up
-- Error UNKNOWN: the worker counts as dead; it must renew first
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _server.lua
local DUE_AT_ONCE = 500
local worker, want = ARGV[2], tonumber(ARGV[3])
if not redis.call('ZSCORE', WORKERS, worker) then
  return redis.error_reply('UNKNOWN the worker has been declared dead')
end
if STATE == 'running' and DEADLINE_MS > 0 and NOW >= DEADLINE_MS then
  STATE = 'stopping'
  redis.call('HSET', META, 'state', STATE)
end
if STATE ~= 'running' then return {STATE, -1, 0, cmsgpack.pack({}), server()} end

for _, packed in ipairs(redis.call('ZRANGE', DELAYED, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)) do
  local name, level, entry = read_url(packed)
  if name then
    enqueue(name, level, entry, true)
    count('delayed', -1)
  else
    set_aside()
  end
  redis.call('ZREM', DELAYED, packed)
end
if damaged then write_off('delayed', redis.call('ZCARD', DELAYED)) end
local due = redis.call('ZRANGE', WAITING, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, DUE_AT_ONCE)
fetch_hosts(due)
for _, name in ipairs(due) do load_host(name).at = 'waiting' end
for _, name in ipairs(names) do place(name, hosts[name]) end

if PAGES >= 0 then
  local taken = redis.call('HMGET', COUNTS, 'done', 'leased')
  want = math.min(want, PAGES - tonumber(taken[1] or 0) - tonumber(taken[2] or 0))
  if want <= 0 then STATE = 'limit' end
end

local token = math.max(tonumber(redis.call('HGET', META, 'tokens') or 0), tonumber(ARGV[4]))
local leased, replied, held = 0, {}, {}

local function lease_from(name)
  local host = load_host(name)
  host.at = 'ready'
  local level, entries = dequeue(name, math.min(want - leased, free_slots(host)))
  for _, entry in ipairs(entries) do
    token = token + 1
    held[#held + 1] = token
    held[#held + 1] = cmsgpack.pack({name, level, entry})
    local n = #replied
    replied[n + 1], replied[n + 2], replied[n + 3] = token, name, level
    replied[n + 4], replied[n + 5], replied[n + 6] = entry, host.failures or 0, host.pages
  end
  host.out = host.out + #entries
  leased = leased + #entries
  place(name, host)
  return host
end

-- A host that stays in line may have a new place in it: the line is then read anew.
while leased < want do
  save_lines()
  local line = redis.call('ZRANGE', READY, 0, want - leased - 1)
  if #line == 0 then break end
  fetch_hosts(line)
  for _, name in ipairs(line) do
    if lease_from(name).at == 'ready' or leased == want then break end
  end
end
call_in_pieces('HSET', LEASED .. worker, held)
count('leased', leased)
redis.call('HSET', META, 'tokens', token)
save_hosts()
save_counts()

local next_ms = -1
for _, key in ipairs({WAITING, DELAYED}) do
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] and (next_ms < 0 or first[2] - NOW < next_ms) then next_ms = math.max(0, first[2] - NOW) end
end
return {STATE, next_ms, redis.call('SCARD', SCOPE), cmsgpack.pack(replied), server()}

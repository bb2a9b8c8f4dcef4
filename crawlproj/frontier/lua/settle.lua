#!lua flags=allow-oom
-- Ends leases. Only the current holder can: a lease that was reclaimed is no longer
-- there, and its former holder's verdict changes nothing. Of two who hold the same URL (_copies.lua)
-- the first to settle it is its holder.
--
-- ARGV  2 worker
--       3 msgpack list of token, verdict, ms since the request ended, pause in ms,
--         reason, entry, delay in ms, HTTP status or 0, bytes, what the host showed of
--         itself (judge_host), ms to leave it alone, why or '', connections it may have or 0 if
--         that is not said, group it turned out to belong to or '', of one lease after the other;
--         verdict is one of
--         done      the page is fetched, its links are here, its row is on disk; with an `entry`
--                   it is to be revisited as that after `delay` (_resting.lua)
--         filtered  for `reason`; the same
--         set_aside not fetched: its pattern, `reason`, is set aside because of `entry`
--         dead      for `reason`; kept among the dead letters
--         retry     queue `entry` (the old one if empty) again after `delay`
--         wait      the same, but it was not tried
--         return    was not fetched: back to the front of its queue
--         keep      its request has ended and its host may be asked again, but its page cannot
--                   be settled yet: it stays leased, until another verdict comes
--       4 msgpack list of class, count of items that spiders have yielded
--       5 number of the call, 6 1 if it is repeated, for its reply was lost: it is then answered as before,
--         unless that is forgotten
-- Reply {settled, msgpack list of tokens that were no longer held, holds so far, '' or, where the
--        crawl speculates, msgpack list of token and the other's token, of each URL that two have held,
--        1 if that is what was answered before}
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _patterns.lua
--include _dead_letters.lua
--include _resting.lua
--include _last_worker.lua
--include _outcomes.lua
--include _copies.lua
--include _replies.lua
local FIELDS = 14

-- The replies to the last calls of each worker are remembered, as long as it lives.
local call = {field = settlements.field(ARGV[2], tonumber(ARGV[5])), is_repeated = ARGV[6] == '1'}
if call.is_repeated then
  local ok, number, late, ended = pcall(cmsgpack.unpack, redis.call('HGET', REPLIES, call.field) or nil)
  if ok and number == ARGV[5] and type(late) == 'string' and type(ended) == 'string' then
    return {0, late, HOLDS, ended, 1}
  end
end
local held = LEASED .. ARGV[2]
local settled, late, statuses = 0, {}, {}
local items = cmsgpack.unpack(ARGV[3])

local mark = DELAY_MS > 0 and mark_of(ARGV[2])
local leases, ended = {}, {}
do  -- a block of its own, for a script may have 200 local variables at a time
  local tokens, touched = {}, {}
  for at = 1, #items, FIELDS do tokens[#tokens + 1] = items[at] end
  for i, packed in ipairs(read_fields(held, tokens)) do
    local lease = packed and {read_lease(packed)}
    leases[tokens[i]] = lease
    if lease then touched[#touched + 1] = lease[1] end
  end
  fetch_hosts(touched)
end

local function release(host, group, ago_ms, pause_ms, failed, hold_ms, why, connections)
  local keeper = release_host(host, group, ago_ms, pause_ms)
  host.last = pause_ms > 0 and mark or nil
  judge_host(host, keeper, failed, hold_ms, why, pause_ms)
  allow_connections(keeper, connections)
  -- Workers that have leased more of it will see that they may not begin.
  if hold_ms > 0 and keeper.out > 0 then HOLDS = redis.call('HINCRBY', META, 'holds', 1) end
end

for at = 1, #items, FIELDS do
  local token, verdict, ago_ms, pause_ms, reason, entry, delay_ms, status, size, failed, hold_ms,
    hold_reason, connections, found_group = unpack(items, at, at + FIELDS - 1)
  local lease = leases[token]
  local name = lease and lease[1]
  local is_outrun = twins and name and lease[6] == twins.OUTRUN
  if not name or is_outrun then late[#late + 1] = token end
  if not name then
    if lease then count_corrupt() end
  else
    local level, leased_entry, kept, group = lease[2], lease[3], lease[4], lease[5]
    local host = load_host(name)
    if kept then
      count_kept_of(name, group, -1)
    else
      release(host, group, ago_ms, pause_ms, failed, hold_ms, hold_reason, connections)
    end
    if found_group ~= '' then join_group(name, found_group) end
    local twin = twins and lease[6] and twins.find(token, lease[6])
    if is_outrun or twin and twins.WITHDRAWS[verdict] then
      twins.count_of(name, group, -1)
      if is_outrun then count('late', -1) end  -- it was counted when it was outrun
      verdict = 'withdrawn'
    elseif verdict == 'keep' then
      count_kept_of(name, group, 1)
      redis.call('HSET', held, token, lease[6] and cmsgpack.pack(name, level, leased_entry, 1, group or false, lease[6])
                 or cmsgpack.pack(name, level, leased_entry, 1, group or false))
    elseif verdict == 'done' then
      host.pages = host.pages + 1
      if group then load_group(group).pages = load_group(group).pages + 1 end
      count('done', 1)
      note_outcome(name, leased_entry, ARGV[2], status)
      if entry ~= '' then rest(name, entry, 'done', delay_ms) end
    elseif verdict == 'filtered' then
      count('filtered:' .. reason, 1)
      note_outcome(name, leased_entry, ARGV[2], status, reason)
      if entry ~= '' then rest(name, entry, 'filtered:' .. reason, delay_ms) end
    elseif verdict == 'set_aside' then
      if set_aside(name, reason, entry, KIND.UNFILTERED, level, leased_entry, '') then
        enqueue(name, level, leased_entry, false)
      end
    elseif verdict == 'dead' then
      add_dead_letter(name, level, with_attempt(leased_entry), reason)
    elseif verdict == 'retry' then
      delay(token, name, level, with_attempt(entry ~= '' and entry or leased_entry), NOW + delay_ms)
    elseif verdict == 'wait' then
      delay(token, name, level, leased_entry, NOW + delay_ms)
    elseif verdict == 'return' then
      enqueue(name, level, leased_entry, true)
    end
    if verdict ~= 'keep' and not is_outrun then
      if status > 0 then statuses[status] = (statuses[status] or 0) + 1 end
      count('bytes', size)
      if verdict ~= 'withdrawn' then settled = settled + 1 end
      if twin and verdict ~= 'withdrawn' then twins.outrun(twin) end
      if twins then twins.note_end(ARGV[2], token, lease[6], verdict) end
    end
  end
  if verdict ~= 'keep' or not name then ended[#ended + 1] = token end
  leases[token] = nil
end
call_in_pieces('HDEL', held, ended)
for status, times in pairs(statuses) do count('status:' .. status, times) end
count('leased', -settled)
count('late', #late)
if twins then twins.forget(ARGV[2], ended) end
local yielded = (settled > 0 or not call.is_repeated) and cmsgpack.unpack(ARGV[4]) or {}
for i = 1, #yielded, 2 do count('items:' .. yielded[i], yielded[i + 1]) end
if damaged then mend_leases() end
save_hosts()
save_counts()
call.late, call.ended = cmsgpack.pack(late), twins and cmsgpack.pack(twins.ended) or ''
if redis.call('ZSCORE', WORKERS, ARGV[2]) then
  redis.call('HSET', REPLIES, call.field, cmsgpack.pack(ARGV[5], call.late, call.ended))
end
return {settled, call.late, HOLDS, call.ended, 0}

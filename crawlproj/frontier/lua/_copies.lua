-- Included after _hosts.lua where leases are made and end: copies of leases, where the crawl speculates
-- (FRONTIER_SPECULATE). A lease that is much older than leases mostly become is leased once more, to
-- a worker that has nothing else to do, if its host has a connection free that nobody else could use:
-- not while it rests, is held, fails, or allows no more requests at a time. Only requests that may be
-- repeated are copied (GET and HEAD without a body; a robots.txt is one of them, and a host waits for
-- it with all its pages), and each lease once at most.
--
-- Original and copy are twins: two leases of one URL, each with a token of its own, which the ledger
-- counts as one. A twin's record ends with 'token of the other, ms when the original was leased,
-- worker of the other'; it is alone again once the other is no longer there. What becomes of the
-- URL if one of the two (whichever)
--
--   is done, filtered, set aside or dead   that; the other is OUTRUN: whatever it settles is refused,
--                                          and it holds nothing but its connection, until it ends
--   retries, waits or is returned          nothing: it withdraws, and the other is alone
--   is kept                                nothing yet; the other may still be first
--   is lost with its worker                nothing: the other is alone, with one attempt more
--   is OUTRUN and lost with its worker     nothing: its connection rests from then on
--   is lost after the other has ended      what becomes of any lease: it is alone
--
-- In each case the connection of the one that ends rests from when its request has ended, as ever. The
-- page budgets of the crawl, of hosts and of groups count twins once: `copies` of a host or group are
-- its leases beyond one a URL. A pause or the end of the crawl makes no copies and leaves twins alone; so
-- does dropping what is queued. The crawl can finish while one is OUTRUN.
--
-- DURATIONS  bucket -> leases that lasted from 2^(bucket/2) up to 2^((bucket+1)/2) ms; halved when they
--            are many, so that the latest count most
local twins  -- nothing in most crawls: what is off takes no time
if CRAWL[20] then
  twins = {OUTRUN = '', WITHDRAWS = {retry = true, wait = true, ['return'] = true}, ended = {}}

  -- Verdicts that end a request which was made: how long they took is noted.
  local TIMED = {done = true, dead = true, retry = true}

  -- A lease is old after so many times what 95 % take, and after so long at least; of fewer than so many
  -- it is not known how long they take.
  local TIMES_P95, LEAST_MS, LEAST_KNOWN, MANY = 2, 1000, 20, 5000
  -- Of many old leases so few are looked at in a call, each time others: an idle worker asks often.
  local LOOKED_AT = 25

  function twins.pack(name, level, entry, kept, group, twin)
    if twin then return cmsgpack.pack(name, level, entry, kept or false, group or false, twin) end
    return cmsgpack.pack(name, level, entry, kept or false, group or false)
  end

  function twins.count_of(name, group, by)
    add_to(load_host(name), 'copies', by)
    if group then add_to(load_group(group), 'copies', by) end
  end

  -- The other of two twins, as its record says; nothing if it is no longer there.
  function twins.find(token, twin_text)
    local other, _, worker = twin_text:match('^(%d+) (%d+) (.+)$')
    local packed = other and redis.call('HGET', LEASED .. worker, other)
    local lease = packed and {read_lease(packed)}
    if lease and lease[1] and lease[6] and lease[6]:match('^%d*') == tostring(token) then
      return {worker = worker, token = other, lease = lease}
    end
  end

  local function save_twin(twin, entry, twin_text)
    local name, level, _, kept, group = unpack(twin.lease, 1, 5)
    redis.call('HSET', LEASED .. twin.worker, twin.token, twins.pack(name, level, entry, kept, group, twin_text))
  end

  -- One of two twins has settled their URL.
  function twins.outrun(twin)
    save_twin(twin, twin.lease[3], twins.OUTRUN)
    count('late', 1)
  end

  -- Whether one that is lost with its worker leaves its URL to its twin, or had lost it to it before.
  function twins.take_over(token, twin_text)
    if twin_text == twins.OUTRUN then return true end
    local twin = twins.find(token, twin_text)
    if twin then save_twin(twin, with_attempt(twin.lease[3]), twin.lease[6]) end
    return twin
  end

  function twins.note(worker, held)
    local scored = {}
    for i = 1, #held, 2 do
      scored[#scored + 1] = NOW
      scored[#scored + 1] = held[i] .. ' ' .. worker
    end
    call_in_pieces('ZADD', LEASED_AT, scored)
  end

  function twins.forget(worker, tokens)
    local members = {}
    for i, token in ipairs(tokens) do members[i] = token .. ' ' .. worker end
    call_in_pieces('ZREM', LEASED_AT, members)
  end

  -- How long a lease has lasted that ends, a twin's as long as the original's; and, if it ends its URL, of
  -- which other lease rows may be written.
  function twins.note_end(worker, token, twin_text, verdict)
    if twin_text and verdict ~= 'withdrawn' and not twins.WITHDRAWS[verdict] then
      twins.ended[#twins.ended + 1] = token
      twins.ended[#twins.ended + 1] = tonumber(twin_text:match('^%d*'))
    end
    if not TIMED[verdict] then return end
    local since_ms = twin_text and twin_text:match('^%d+ (%d+)')
                     or redis.call('ZSCORE', LEASED_AT, token .. ' ' .. worker)
    if not since_ms then return end
    local bucket = math.floor(2 * math.log(math.max(1, NOW - since_ms)) / math.log(2))
    redis.call('HINCRBY', DURATIONS, bucket, 1)
  end

  -- After how many ms a lease is old; nothing if that is not known.
  local function old_after_ms()
    local found, counts, buckets, total = redis.call('HGETALL', DURATIONS), {}, {}, 0
    for i = 1, #found, 2 do
      local bucket, times = tonumber(found[i]), tonumber(found[i + 1])
      if bucket and times then  -- else it is not ours
        buckets[#buckets + 1], counts[bucket] = bucket, times
        total = total + times
      end
    end
    if total < LEAST_KNOWN then return end
    if total > MANY then
      for bucket, times in pairs(counts) do redis.call('HSET', DURATIONS, bucket, math.floor(times / 2)) end
    end
    table.sort(buckets)
    local below = 0
    for _, bucket in ipairs(buckets) do
      below = below + counts[bucket]
      if below >= 0.95 * total then return math.max(LEAST_MS, TIMES_P95 * 2 ^ ((bucket + 1) / 2)) end
    end
  end

  -- Whether the request can be made twice. What is read and is no request makes none.
  local function is_repeatable(entry)
    local ok, record = pcall(cmsgpack.unpack, entry:sub(3))
    if not ok then return false end
    local rest = type(record) == 'table' and type(record[4]) == 'table' and record[4] or {}
    return (rest.method == nil or rest.method == 'GET' or rest.method == 'HEAD') and rest.body == nil
  end

  -- Whether a connection of a host or group is free this instant. Changes nothing of it.
  local function has_connection(unit, connections)
    if (unit.hold or 0) > NOW then return false end
    local used = unit.out
    for _, due in ipairs(unit.cooling) do
      if due > NOW then used = used + 1 end
    end
    return used < connections
  end

  local function has_room(host)
    local group = host.group and PACED and load_group(host.group)
    return has_connection(host, host_connections(host))
           and (not group or has_connection(group, group.per or PER_HOST))
  end

  local function check_out(name, host)
    host.out = host.out + 1
    local group = host.group and load_group(host.group)
    if group then group.out = group.out + 1 end
    twins.count_of(name, host.group, 1)
    place(name, host)
    if not group then return end
    save_lines()
    place_group(host.group, group)
  end

  local function old_leases()
    local after_ms = old_after_ms()
    local many = after_ms and redis.call('ZCOUNT', LEASED_AT, '-inf', NOW - after_ms) or 0
    if many == 0 then return {} end
    local from = many > LOOKED_AT and NOW % many or 0
    return redis.call('ZRANGE', LEASED_AT, '-inf', NOW - after_ms, 'BYSCORE', 'LIMIT', from, LOOKED_AT, 'WITHSCORES')
  end

  -- Leases to a worker what others have had for long, `most` at most; adds to what it holds and is told,
  -- and returns the last token.
  function twins.make(worker, most, token, held, replied)
    local old = old_leases()
    for i = 1, #old, 2 do
      if most == 0 then break end
      local first, holder = old[i]:match('^(%d+) (.+)$')
      local packed = holder and redis.call('HGET', LEASED .. holder, first)
      local name, level, entry, kept, group = read_lease(packed or '')
      if not (name and is_repeatable(entry)) then
        redis.call('ZREM', LEASED_AT, old[i])
      elseif holder ~= worker and not kept and has_room(load_host(name)) then
        local host, since = load_host(name), ('%.0f'):format(old[i + 1])
        token, most = token + 1, most - 1
        check_out(name, host)
        redis.call('ZREM', LEASED_AT, old[i])
        redis.call('HSET', LEASED .. holder, first,
                   twins.pack(name, level, entry, false, group, ('%.0f %s %s'):format(token, since, worker)))
        local n, m = #replied, #held
        held[m + 1] = token
        held[m + 2] = twins.pack(name, level, entry, false, host.group, first .. ' ' .. since .. ' ' .. holder)
        replied[n + 1], replied[n + 2], replied[n + 3], replied[n + 4] = token, name, level, entry
        replied[n + 5], replied[n + 6], replied[n + 7] = host.failures or 0, host.pages, host.group or ''
        count('copies', 1)
      end
    end
    return token
  end
end

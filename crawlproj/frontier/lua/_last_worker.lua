-- Included by settle.lua and lease.lua: which worker has asked a host last. It has a connection to
-- it, so that a host that falls due is left to it for a moment, before whoever asks first has it.

-- The worker as records of hosts name it, in few bytes: nothing goes wrong where two are called the
-- same. Nothing for a worker that is alone.
local function mark_of(worker)
  if redis.call('ZCARD', WORKERS) < 2 then return nil end
  return redis.sha1hex(worker):sub(1, 4)
end

-- Whether a host that rests is left to another worker than the one of that mark.
local function is_anothers(packed, mark)
  local host = packed and read_host(packed)
  return host and host.last and host.last ~= mark or false
end

-- Included where replies to settlements are remembered, and where they are forgotten: of each worker
-- those to its last calls. One table, for a script may have 200 local variables at a time.
local settlements = {REMEMBERED = 8}

function settlements.field(worker, call)
  return ('settled %d %s'):format(call % settlements.REMEMBERED, worker)
end

function settlements.forget(worker)
  local fields = {}
  for call = 1, settlements.REMEMBERED do fields[call] = settlements.field(worker, call) end
  redis.call('HDEL', REPLIES, unpack(fields))
end

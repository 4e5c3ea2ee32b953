sweep(1000)
local all = usage('all')
return { 'ok', all.runs, all.runs - all.ended, tonumber(call('HGET', P .. 'all', 'waiting') or 0), all.bytes }

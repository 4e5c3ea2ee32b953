-- Finds out whether writes are possible.
call('HSET', P .. 'probe', 'x', 1)
call('PEXPIRE', P .. 'probe', 1000)
return { 'ok' }

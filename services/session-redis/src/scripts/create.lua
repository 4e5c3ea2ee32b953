return { use(false) or 'ok' }

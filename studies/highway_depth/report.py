def complete(results, config, folder):
    folder.write_results(results); return results
